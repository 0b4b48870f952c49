"""Kafka's jars: fetched once from Maven's repository into a user cache folder, verified, and found there.

`compose/jars.lock` names every jar with its sha256, so nothing is resolved at set-up: each line is fetched,
by `jgo` (pure Python) or else by `mvn` if there is one, checked, and moved into place. What is in place is
never fetched again, so an interrupted set-up goes on where it stopped. Two processes at once: one waits.
A jar that fails its check never reaches the folder.

    python -m shardwheel.compose.jars            fetch what is missing (what `make setup` does)
    python -m shardwheel.compose.jars --relock   resolve ROOTS anew and write jars.lock
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardwheel.compose import fetch
from shardwheel.compose.progress import Progress
from shardwheel.compose.server import supported_platform
from shardwheel.errors import ShardwheelError, UsageError

KAFKA_VERSION = "4.3.1"
ROOTS = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4")
LOCK_PATH = Path(__file__).resolve().parent / "jars.lock"
AGAIN = "run 'make setup' again to go on where it stopped"


@dataclass(frozen=True)
class Jar:
    sha256: str
    coordinate: str  # group:artifact:version

    @property
    def file_name(self) -> str:
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"


def cache_dir() -> Path:
    """`SHARDWHEEL_CACHE`, else the user's cache folder: outside any checkout, shared by all of them."""
    if chosen := os.environ.get("SHARDWHEEL_CACHE"):
        return Path(chosen).expanduser().absolute()
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen) / "shardwheel"
    return Path.home() / ".cache" / "shardwheel"


def read_lock(path: Path = LOCK_PATH) -> list[Jar]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [Jar(*line.split()) for line in lines]


def jars_dir() -> Path:
    """One folder a lock: another version of Kafka never mixes with this one."""
    return cache_dir() / f"kafka-{KAFKA_VERSION}-{hashlib.sha256(LOCK_PATH.read_bytes()).hexdigest()[:8]}"


def missing(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if not (folder / jar.file_name).exists()]


def class_path() -> str:
    """For `java -cp`. Raises UsageError when the jars are not there."""
    jars, folder = read_lock(), jars_dir()
    if absent := missing(jars, folder):
        raise UsageError(f"Kafka: {len(absent)} of {len(jars)} jars are not in {folder}: run 'make setup'")
    return ":".join(str(folder / jar.file_name) for jar in jars)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def ensure(fetchers: Sequence[fetch.Fetcher] | None = None, jars: Sequence[Jar] | None = None) -> Path:
    """All jars in place, or one clear line why not. Takes milliseconds when there is nothing to do."""
    jars = read_lock() if jars is None else jars
    folder = jars_dir()
    if not missing(jars, folder):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            if not missing(jars, folder):
                return folder  # another process was at it
            _fill(jars, folder, fetch.available() if fetchers is None else fetchers)
    except OSError as error:
        raise UsageError(f"Kafka's jars: {folder}: {error.strerror}: {_remedy(error)}") from error
    return folder


def _remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"free 100 MB there, or set SHARDWHEEL_CACHE to a folder on another disk; then {AGAIN}"
    return "set SHARDWHEEL_CACHE to a folder you may write to"


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One fetching process at a time; the kernel frees the lock of one that died."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Kafka's jars: another process is fetching them, waiting for it", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fill(jars: Sequence[Jar], folder: Path, fetchers: Sequence[fetch.Fetcher]) -> None:
    for leftover in folder.glob(".fetch-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    complaints: list[str] = []
    for fetcher in fetchers:
        if complaints:
            print(f"Kafka's jars: {complaints[-1]}; trying another way", file=sys.stderr)
        wanted = missing(jars, folder)
        with Progress("Kafka's jars", len(jars), len(jars) - len(wanted)) as progress:
            complaints += _fetch_into(folder, wanted, fetcher, progress.step)
        if not missing(jars, folder):
            return
    count, reasons = len(missing(jars, folder)), "; ".join(complaints[:3])
    raise UsageError(
        f"Kafka's jars: {count} of {len(jars)} not fetched ({reasons}): check the network, HTTPS_PROXY and "
        f"SHARDWHEEL_MAVEN_MIRROR, then {AGAIN}"
    )


def _fetch_into(
    folder: Path, wanted: Sequence[Jar], fetcher: fetch.Fetcher, step: Callable[[str], None]
) -> list[str]:
    """Fetch into a scratch folder; a jar that passes its check is renamed into place. Returns complaints."""
    by_coordinate = {jar.coordinate: jar for jar in wanted}
    complaints: list[str] = []
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder, ignore_cleanup_errors=True) as scratch:
        try:
            for coordinate, path in fetcher(list(by_coordinate), Path(scratch)):
                jar = by_coordinate[coordinate]
                if sha256_of(path) == jar.sha256:
                    _put(path, folder / jar.file_name)
                    step(jar.file_name)
                else:
                    complaints.append(f"checksum wrong: what came is not the {jar.file_name} of jars.lock")
        except fetch.FetchError as error:
            complaints.append(str(error))
    return complaints


def _put(path: Path, place: Path) -> None:
    """On the disk before it gets its name: what has its name is never looked at again."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    path.replace(place)


def relock() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        found = fetch.resolve(ROOTS, Path(scratch))
        lines = sorted(
            (f"{sha256_of(path)}  {coordinate}" for coordinate, path in found), key=lambda x: x[66:]
        )
    LOCK_PATH.write_text("\n".join(["# Written by: python -m shardwheel.compose.jars --relock", *lines, ""]))


def main() -> int:
    try:
        supported_platform()
        if sys.argv[1:] == ["--relock"]:
            relock()
        ensure()
    except ShardwheelError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"setup: interrupted; {AGAIN}", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

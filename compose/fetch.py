"""Two ways to get files out of Maven's repository: `jgo`, a resolver in Python, and `mvn` where there is one.

Each is a function that takes coordinates and a scratch folder and yields (coordinate, path) as files arrive.
Neither decides whether a file is the right one: jars.py does, by its checksum. Proxies are taken from the
usual environment variables; `mvn` reads its own settings; `SHARDWHEEL_MAVEN_MIRROR` gives `jgo` a mirror.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from shardwheel.errors import ShardwheelError

Fetcher = Callable[[Sequence[str], Path], Iterator[tuple[str, Path]]]
_CONNECTIONS = 4
_ATTEMPTS = 3
_PAUSE_S = 0.5
_NETWORK_LIMIT_S = 20
_MVN_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


class FetchError(ShardwheelError):
    """A file could not be had; says which, and why, in one line."""


def available() -> list[Fetcher]:
    return [by_jgo, by_mvn]


def by_jgo(coordinates: Sequence[str], scratch: Path) -> Iterator[tuple[str, Path]]:
    context = _context(scratch)
    pool = ThreadPoolExecutor(_CONNECTIONS)
    try:
        futures = {pool.submit(_artifact, context, coordinate): coordinate for coordinate in coordinates}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _context(scratch: Path) -> Any:
    try:
        from jgo.maven import MavenContext
    except ImportError as error:
        raise FetchError("the package jgo is missing") from error
    logging.getLogger("jgo").setLevel(logging.ERROR)
    mirror = os.environ.get("SHARDWHEEL_MAVEN_MIRROR", "").rstrip("/")
    places = {"mirror": mirror} if mirror else None
    return MavenContext(repo_cache=scratch, remote_repos=places, timeout=_NETWORK_LIMIT_S)


def _artifact(context: Any, coordinate: str) -> Path:
    group, artifact, version = coordinate.split(":")
    wanted = context.project(group, artifact).at_version(version).artifact()
    for attempt in range(1, _ATTEMPTS):
        with contextlib.suppress(FetchError):
            return _attempt(wanted, coordinate)
        time.sleep(attempt * _PAUSE_S)
    return _attempt(wanted, coordinate)


def _attempt(wanted: Any, coordinate: str) -> Path:
    try:
        return Path(wanted.resolve())
    except Exception as error:  # a foreign package's: it may be anything
        # A transfer that broke off leaves half a file, which the next attempt would take for the whole.
        wanted.cached_path.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's; those of the network carry no number
        raise FetchError(f"no {coordinate} from Maven's repository: {type(error).__name__}") from error


def by_mvn(coordinates: Sequence[str], scratch: Path) -> Iterator[tuple[str, Path]]:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise FetchError("no mvn on the PATH to try instead")
    (scratch / "pom.xml").write_text(_pom(coordinates))
    target = scratch / "copied"
    argv = [mvn, "-B", "-q", "-f", str(scratch / "pom.xml"), _MVN_GOAL, f"-DoutputDirectory={target}"]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise FetchError(f"mvn failed: {_first_line(done.stdout + done.stderr)}")
    for coordinate in coordinates:
        _, artifact, version = coordinate.split(":")
        yield coordinate, target / f"{artifact}-{version}.jar"


def _first_line(output: str) -> str:
    return next((line for line in output.splitlines() if line.strip()), "it said nothing")


def _pom(coordinates: Sequence[str]) -> str:
    """A project that depends on exactly these, and on nothing that they depend on."""
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        for group, artifact, version in (coordinate.split(":") for coordinate in coordinates)
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>shardwheel</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


def resolve(roots: Sequence[str], scratch: Path) -> list[tuple[str, Path]]:
    """The roots and all they need at run time, fetched: only for writing the lock.

    Each root is resolved by itself, and an earlier root's choice of a version stands: resolved together, the
    versions that one root's parent manages would replace those that Kafka was released with.
    """
    context = _context(scratch)
    versions: dict[str, str] = {}
    for root in roots:
        inputs, needed = context.resolver.resolve([context.create_dependency(root)])
        for jar in [*inputs, *needed]:
            versions.setdefault(f"{jar.groupId}:{jar.artifactId}", jar.version)
    return list(by_jgo([f"{name}:{version}" for name, version in versions.items()], scratch))

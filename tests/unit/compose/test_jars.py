"""Kafka's jars: fetched once, checked, resumed, and never by two processes at a time."""

from __future__ import annotations

import errno
import hashlib
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from shardwheel.compose import fetch, jars
from shardwheel.compose.fetch import Fetcher, FetchError
from shardwheel.compose.jars import Jar
from shardwheel.compose.process import await_true
from shardwheel.errors import UsageError

NAMES = ("g.one:one:1", "g.two:two:2", "g.three:three:3")
LIMIT_S = 120


def content(coordinate: str) -> bytes:
    return f"the bytes of {coordinate}".encode()


JARS = [Jar(hashlib.sha256(content(name)).hexdigest(), name) for name in NAMES]


class Shop:
    """A fetcher that keeps a list of what it was asked for, and fails or cheats where it is told to."""

    def __init__(self, fails_at: str = "", cheats_at: str = "") -> None:
        self.asked: list[list[str]] = []
        self._fails_at, self._cheats_at = fails_at, cheats_at

    def __call__(self, coordinates: Sequence[str], scratch: Path) -> Iterator[tuple[str, Path]]:
        self.asked.append(list(coordinates))
        for coordinate in coordinates:
            if coordinate == self._fails_at:
                raise FetchError(f"no {coordinate} today")
            path = scratch / coordinate.replace(":", "-")
            path.write_bytes(b"something else" if coordinate == self._cheats_at else content(coordinate))
            yield coordinate, path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHARDWHEEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_jars_are_fetched_once() -> None:
    shop = Shop()
    folder = jars.ensure([shop], JARS)
    assert names_in(folder) == ["one-1.jar", "three-3.jar", "two-2.jar"]
    assert jars.ensure([shop], JARS) == folder
    assert shop.asked == [list(NAMES)]


def test_an_interrupted_fetch_goes_on_where_it_stopped() -> None:
    broken = Shop(fails_at=NAMES[1])
    with pytest.raises(
        UsageError, match=r"^Kafka's jars: 2 of 3 not fetched \(no g.two:two:2 today\): .*again"
    ):
        jars.ensure([broken], JARS)
    shop = Shop()
    jars.ensure([shop], JARS)
    assert shop.asked == [list(NAMES[1:])]


def test_what_one_way_can_not_get_comes_by_the_other() -> None:
    first, second = Shop(fails_at=NAMES[0]), Shop()
    assert names_in(jars.ensure([first, second], JARS)) == ["one-1.jar", "three-3.jar", "two-2.jar"]


def test_a_jar_with_a_wrong_checksum_never_gets_into_place() -> None:
    with pytest.raises(UsageError, match=r"checksum wrong: .* two-2\.jar"):
        jars.ensure([Shop(cheats_at=NAMES[1])], JARS)
    assert names_in(jars.jars_dir()) == ["one-1.jar", "three-3.jar"]


def test_leftovers_of_a_killed_fetch_are_swept() -> None:
    leftover = jars.jars_dir() / ".fetch-dead"
    leftover.mkdir(parents=True)
    jars.ensure([Shop()], JARS)
    assert not leftover.exists()


def test_a_full_disk_is_said_in_one_line() -> None:
    def full(coordinates: Sequence[str], scratch: Path) -> Iterator[tuple[str, Path]]:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(
        UsageError, match=r"^Kafka's jars: .*: No space left on device: free .*SHARDWHEEL_CACHE"
    ):
        jars.ensure([full], JARS)


def test_the_second_of_two_waits_for_the_first_and_fetches_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    inside, leave = threading.Event(), threading.Event()

    def slow(coordinates: Sequence[str], scratch: Path) -> Iterator[tuple[str, Path]]:
        inside.set()
        assert leave.wait(LIMIT_S)
        yield from Shop()(coordinates, scratch)

    first = threading.Thread(target=jars.ensure, args=([slow], JARS))
    first.start()
    assert inside.wait(LIMIT_S)
    idle = Shop()
    second = threading.Thread(target=jars.ensure, args=([idle], JARS))
    second.start()
    # It says so at the moment it begins to wait.
    waits = await_true(lambda: "another process is fetching them" in capsys.readouterr().err, LIMIT_S)
    leave.set()
    first.join(LIMIT_S)
    second.join(LIMIT_S)
    assert not first.is_alive()
    assert not second.is_alive()
    assert idle.asked == []
    assert waits


def test_class_path_without_jars_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"jars are not in .*: run 'make setup'$"):
        jars.class_path()


def test_the_lock_names_kafka_and_every_jar_once() -> None:
    locked = jars.read_lock()
    assert len({jar.file_name for jar in locked}) == len(locked) > 40
    assert {root.split(":")[1] for root in jars.ROOTS} <= {jar.coordinate.split(":")[1] for jar in locked}
    assert all(len(jar.sha256) == 64 for jar in locked)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository on loopback that serves what a test puts into the folder, for `jgo`."""
    folder = tmp_path / "mirror"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(folder))  # type: ignore[arg-type]

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("SHARDWHEEL_MAVEN_MIRROR", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield folder
        server.shutdown()
        thread.join()


def stock(folder: Path, coordinate: str) -> None:
    group, artifact, version = coordinate.split(":")
    place = folder / group.replace(".", "/") / artifact / version
    place.mkdir(parents=True)
    (place / f"{artifact}-{version}.jar").write_bytes(content(coordinate))


def test_jgo_fetches_by_coordinate(mirror: Path) -> None:
    for name in NAMES:
        stock(mirror, name)
    assert names_in(jars.ensure([fetch.by_jgo], JARS)) == ["one-1.jar", "three-3.jar", "two-2.jar"]


def test_jgo_says_what_the_repository_lacks(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_PAUSE_S", 0)
    with pytest.raises(UsageError, match=r"no g\.one:one:1 from Maven's repository"):
        jars.ensure([fetch.by_jgo], JARS[:1])


def test_without_mvn_the_second_way_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="no mvn on the PATH"):
        jars.ensure([fetch.by_mvn], JARS)


def test_mvn_gets_exactly_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for mvn: copies a jar for each dependency of the project it is given."""
    fake = tmp_path / "mvn"
    fake.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, re, sys\n"
        "pom = pathlib.Path(sys.argv[sys.argv.index('-f') + 1]).read_text()\n"
        "target = pathlib.Path(sys.argv[-1].removeprefix('-DoutputDirectory='))\n"
        "target.mkdir()\n"
        "one = '<dependency><groupId>(.*?)</groupId><artifactId>(.*?)</artifactId><version>(.*?)</version>'\n"
        "for g, a, v in re.findall(one, pom):\n"
        "    (target / f'{a}-{v}.jar').write_text(f'the bytes of {g}:{a}:{v}')\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    fetchers: list[Fetcher] = [Shop(fails_at=NAMES[1]), fetch.by_mvn]
    assert names_in(jars.ensure(fetchers, JARS)) == ["one-1.jar", "three-3.jar", "two-2.jar"]


def test_the_command_fails_in_one_line_on_standard_error(tmp_path: Path) -> None:
    environment = {
        "SHARDWHEEL_CACHE": str(tmp_path / "cache"),
        "SHARDWHEEL_MAVEN_MIRROR": "http://127.0.0.1:1",
        "NO_PROXY": "127.0.0.1",
        "PATH": str(tmp_path),
    }
    argv = [sys.executable, "-m", "shardwheel.compose.jars"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 1
    assert done.stdout == ""
    assert [
        line for line in done.stderr.splitlines() if line.startswith("setup:")
    ] == done.stderr.splitlines()[-1:]
    assert "Traceback" not in done.stderr

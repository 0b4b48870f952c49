"""The house: symlinks and package-dir say the same, and every way to install gives the same packages."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = {"wheel", "shard", "coordinator", "workers", "results", "api", "alerts", "compose", "bench"}


def setuptools_table() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as stream:
        table: dict[str, Any] = tomllib.load(stream)["tool"]["setuptools"]
    return table


def test_symlinks_and_package_dir_say_the_same() -> None:
    links = {path.name: path.readlink() for path in (ROOT / "shardwheel").iterdir() if path.is_symlink()}
    assert links == {room: Path("..") / room for room in ROOMS}
    mapping = setuptools_table()["package-dir"]
    assert mapping == {"shardwheel": "shardwheel"} | {f"shardwheel.{room}": room for room in ROOMS}


def test_every_package_of_the_tree_is_listed() -> None:
    own = {path.parent.name for path in (ROOT / "shardwheel").glob("*/__init__.py")}
    own |= {f"{path.parts[-3]}.{path.parts[-2]}" for path in (ROOT / "shardwheel").glob("*/*/__init__.py")}
    listed = {name.partition(".")[2] for name in setuptools_table()["packages"]} - {""}
    assert listed == own


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An sdist and a wheel, built from a copy without symlinks: what a clone on such a system has."""
    folder = tmp_path_factory.mktemp("build")
    source = folder / "source"
    source.mkdir()
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in filter(None, tracked.split("\0")):
        origin, copy = ROOT / name, source / name
        if not origin.exists():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(str(origin.readlink()).encode() if origin.is_symlink() else origin.read_bytes())
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source],
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


def test_the_archives_hold_every_module_and_data_file(archives: tuple[Path, Path]) -> None:
    sdist, wheel = archives
    expected = {
        f"shardwheel/{path.relative_to(ROOT / 'shardwheel')}"
        for path in (ROOT / "shardwheel").rglob("*")
        if path.suffix in {".py", ".sql", ".typed"} and "__pycache__" not in path.parts
    } | {f"shardwheel/{room}/{path.name}" for room in ROOMS for path in (ROOT / room).glob("*.py")}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert expected <= names
    assert "shardwheel/compose/jars.lock" in names
    with tarfile.open(sdist) as archive:
        stripped = {name.partition("/")[2] for name in archive.getnames()}
    assert {"wheel/__init__.py", "shardwheel/errors.py", "pyproject.toml", "LICENSE"} <= stripped


def test_a_plain_install_can_be_imported(archives: tuple[Path, Path], tmp_path: Path) -> None:
    _, wheel = archives
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = "import shardwheel.wheel, shardwheel.cli; print(shardwheel.wheel.__file__)"
    shown = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert shown.stdout.strip().startswith(str(tmp_path))

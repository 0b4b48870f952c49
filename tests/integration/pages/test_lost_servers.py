"""The pages for lost servers, each walked through while its server is frozen, or a replica promoted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from shardwheel.compose.postgres import PostgresServer, binaries
from tests.integration.pages.dev import dev_running, environment, walk_through
from tests.servers import started
from tests.shell import shardctl_ready

pytestmark = pytest.mark.servers
LOST = ("kafka-lost", "etcd-lost", "postgres-fail-over")


class Replica(PostgresServer):
    """A server that follows another one; promoted, it is on a timeline of its own."""

    def __init__(self, folder: Path, primary: str) -> None:
        super().__init__(folder, durable=False)
        self._primary = primary

    def format(self, folder: Path) -> None:
        password = self.data_dir / "password"
        password.write_text(unquote(urlsplit(self._primary).password or ""))
        who = self.run_as()
        if who.uid is not None and who.gid is not None:
            os.chown(folder, who.uid, who.gid)
        backup = ["-d", self._primary, "-D", str(folder), "-R", "--checkpoint=fast", "--no-sync"]
        self.run_tool("pg_basebackup", [str(binaries() / "pg_basebackup"), *backup])


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A stack of their own: what these pages are about would fail the others."""
    home = tmp_path_factory.mktemp("lost")
    with shardctl_ready(home) as bin_folder:
        found = environment(bin_folder, home)
        with dev_running(home, found) as stack:
            yield found | {"DSN": str(stack.settings["postgres_dsn"])}


@pytest.mark.parametrize("name", ["kafka-lost", "etcd-lost"])
def test_a_server_that_answers_nobody(name: str, variables: dict[str, str], tmp_path: Path) -> None:
    walk_through(f"docs/{name}.md", tmp_path, variables, least=4)


def test_a_replica_that_is_promoted(variables: dict[str, str], tmp_path: Path) -> None:
    with started(Replica(tmp_path / "replica", variables["DSN"])) as replica:
        walk_through("docs/postgres-fail-over.md", tmp_path, variables | {"REPLICA": replica.dsn}, least=4)

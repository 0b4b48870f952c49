"""Every command of every page, run as it stands there, in a shell, on one `shardctl dev`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tests.integration.pages.dev import dev_running, environment
from tests.integration.pages.test_lost_servers import LOST
from tests.pages import blocks_of, pages
from tests.servers import hasty_postgres, started
from tests.shell import Shell, Walk, shardctl_ready

pytestmark = pytest.mark.servers
# These have tests of their own: on three shards, on what the page itself starts, on servers that are lost.
ELSEWHERE = {f"docs/{name}.md" for name in ("operations", "rebalance", "upgrade", "start", "deploy", *LOST)}
PAGES = {
    page: blocks
    for page, text in pages().items()
    if page not in ELSEWHERE
    and (blocks := list(blocks_of(page, text)))
    and any(block.steps for block in blocks)
}


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    home = tmp_path_factory.mktemp("reader")
    with shardctl_ready(home) as bin_folder:
        found = environment(bin_folder, home)
        arguments = ("--shards", "2", "--handlers", "tests.integration.pages.handlers")
        with dev_running(home, found, *arguments) as stack:
            door = next(row.address for row in stack.processes if row.role == "api")
            yield found | {"API": f"http://{door}/api/v1", "DSN": str(stack.settings["postgres_dsn"])}


@pytest.fixture(scope="module")
def new_server(
    tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]
) -> Iterator[dict[str, str]]:
    """Where docs/backup.md restores to."""
    password = urlsplit(variables["DSN"]).password or ""
    with started(hasty_postgres(tmp_path_factory.mktemp("new-server"))) as server:
        here = f"postgresql://postgres:{quote(password)}@{server.address}"
        yield {
            "EMPTY": server.dsn,
            "PASSWORD": password,
            "NEW": f"{here}/postgres",
            "NEW_DSN": f"{here}/shardwheel",
        }


@pytest.mark.parametrize("page", PAGES)
def test_a_page(page: str, variables: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    more = request.getfixturevalue("new_server") if page == "docs/backup.md" else {}
    shell = Shell(tmp_path, variables | more)
    try:
        walk = Walk(shell)
        for block in PAGES[page]:
            walk.walk(block)
        assert walk.steps or all(block.not_run for block in PAGES[page] if block.steps)
    finally:
        shell.close()

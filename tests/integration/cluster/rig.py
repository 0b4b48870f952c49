"""Three shards, a worker and a result processor as real processes, with people at them; and what went wrong.

Every shard runs under `stepping`, so a test can let it stop or die at an exact step. Whoever dies is started
again, as somebody new. At the end the simulation's checker looks at the real tables: see `check`.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import trio
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner

from shardwheel.bench.shards import is_settled, pid_of
from shardwheel.cli import app
from shardwheel.errors import UnavailableError
from shardwheel.etcd import Etcd
from shardwheel.partition import PARTITIONS
from shardwheel.records import View, read_view
from shardwheel.store.jobs import read_now_ms
from shardwheel.store.task_types import limit_task
from tests.integration.cluster.people import TENANT, People
from tests.integration.cluster.tables import Evidence, judge, read_evidence
from tests.integration.loop.rig import Loop
from tests.simulation.checker import ViolationError, is_quiet, why_not_quiet

SHARDS = ("shard a", "shard b", "shard c")
PLANTED = Path(__file__).parent / "planted.sql"
_FIRED = "SELECT min(fired_through_ms), min(floor_ms) FROM shardwheel.partitions"
_RAN = """
SELECT 1 FROM shardwheel.executions
 WHERE kind = 0 AND state = 'succeeded' AND partition = ANY(%s) AND scheduled_at > shardwheel.at(%s)
"""


class Cluster(Loop):
    # A look at the cluster makes a client of etcd: that must not be the load here.
    LOOK_S = 0.2

    def __init__(self, folder: Path, dsn: str, etcd: str, kafka: str, cluster: str) -> None:
        super().__init__(
            folder,
            dsn,
            etcd,
            kafka,
            cluster,
            # A busy machine may look like a dead shard: nothing is lost either way.
            SHARDWHEEL_LEASE_TTL_S="3",
            SHARDWHEEL_HANDLERS="tests.integration.cluster.handlers",
        )
        self._etcd = etcd
        self._cluster = cluster
        self._runs = folder / "runs"
        self._steps = folder / "steps"
        self._steps.mkdir()
        self._story: list[str] = []
        self.people = People(self.connect, self._runs)
        with self.connect() as conn:
            conn.execute(PLANTED.read_text())
            # Every first attempt of it fails, which is what breakers are for, and not what is tried here.
            with conn.transaction():
                limit_task(conn, TENANT, "flaky", breaker=False)

    def _command(self, role: str) -> list[str]:
        if role == "shard":
            return ["-m", "tests.integration.cluster.stepping", str(self._steps), role]
        return super()._command(role)

    def begin(self) -> None:
        """Everybody is there, and what there is to fire is fired."""
        self.people.move_in()
        for name in SHARDS:
            self.start("shard", name)
        self.start("worker")
        self.start("results")
        self.wait_whole()

    def _meanwhile(self) -> None:
        super()._meanwhile()
        self.people.act()

    def close(self) -> None:
        self.people.settle()
        super().close()

    # --- looking -------------------------------------------------------------------------------------

    def view(self) -> View:
        async def look() -> View:
            async with Etcd((self._etcd,), cluster=self._cluster) as leases:
                return read_view(await leases.range(""))

        return trio.run(look)

    def leader(self) -> str:
        found: list[str] = []

        def leads() -> bool:
            leader = self.view().leader
            found.extend([] if leader is None else [leader.shard_id])
            return bool(found)

        self.wait("somebody leads", leads)
        return found[0]

    def followers(self) -> list[str]:
        """The shards that do not lead."""
        view = self.view()
        return sorted(shard for shard in view.members if view.leader is None or view.leader.shard_id != shard)

    def seat(self, partition: int) -> tuple[str, str]:
        """Its owner and its standby, by the plan."""
        owner, standby = self.view().seats[partition]
        assert standby is not None
        return owner, standby

    def owned_by(self, shard_id: str) -> list[int]:
        return sorted(self.view().owned_by(shard_id))

    def process_of(self, shard_id: str) -> subprocess.Popen[bytes]:
        """The latest of that number: numbers of processes come again."""
        return [process for process in self._processes if process.pid == pid_of(shard_id)][-1]

    def id_of(self, name: str) -> str:
        """The name that a shard has in the cluster."""
        pid = self._supervised[name].pid
        (found,) = (shard_id for shard_id in self.view().members if pid_of(shard_id) == pid)
        return found

    def now_ms(self) -> int:
        with self.connect() as conn:
            return read_now_ms(conn)

    def _fired_and_claimed_ms(self) -> tuple[int, int]:
        with self.connect() as conn:
            ((fired_ms, claimed_ms),) = conn.execute(_FIRED)
            return fired_ms, claimed_ms

    # --- waiting -------------------------------------------------------------------------------------

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        def reached() -> bool:
            try:
                return condition()
            except UnavailableError:
                return False  # The test took etcd away.

        super().wait(f"{what}; before that: {'; '.join(self._story[-3:])}", reached)

    def wait_fired(self, for_s: float = 0.0) -> None:
        """Every partition is fired by somebody, for so long at least."""
        until_ms = self.now_ms() + int(for_s * 1000)
        self.wait("every partition is fired", lambda: self._fired_and_claimed_ms()[0] > until_ms)

    def wait_replaced(self, shard_id: str) -> None:
        """Others own and fire all there is."""

        def is_replaced() -> bool:
            view = self.view()
            return len(view.owners) == PARTITIONS and not view.owned_by(shard_id)

        self.wait(f"{shard_id} is replaced", is_replaced)
        self.wait_fired()

    def wait_ran(self, partitions: list[int]) -> None:
        """Something that becomes due in these partitions from now on has run."""
        since_ms = self.now_ms()

        def ran() -> bool:
            with self.connect() as conn:
                return conn.execute(_RAN, [partitions, since_ms]).fetchone() is not None

        self.wait("they are fired", ran)

    def wait_ended(self, shard_id: str) -> None:
        """It found itself replaced. Who comes instead is somebody new."""
        process = self.process_of(shard_id)
        self.wait(f"{shard_id} ends", lambda: process.poll() is not None)

    def wait_whole(self) -> None:
        """Three shards own what is planned for them, and every partition is fired."""
        self.wait("three shards own all of it", lambda: is_settled(self.view(), len(SHARDS)))
        self.wait_fired()

    # --- faults --------------------------------------------------------------------------------------

    def tell(self, what: str) -> None:
        """What the test does to the cluster, for whoever reads why it failed."""
        self._story.append(f"{self.now_ms()}: {what}")

    def kill(self, shard_id: str) -> None:
        self.tell(f"kill {shard_id}")
        self.process_of(shard_id).kill()

    def stop(self, shard_id: str) -> None:
        self.tell(f"stop {shard_id}")
        self.process_of(shard_id).send_signal(signal.SIGSTOP)

    def go_on(self, shard_id: str) -> None:
        self.tell(f"{shard_id} goes on")
        self.process_of(shard_id).send_signal(signal.SIGCONT)

    @contextmanager
    def rerouted(self, name: str, *, etcd_port: int, postgres_port: int) -> Iterator[None]:
        """A shard is started anew, with other ways to the servers, for as long as the block runs."""
        self.routes[name] = {
            "SHARDWHEEL_ETCD_ENDPOINTS": f"127.0.0.1:{etcd_port}",
            "SHARDWHEEL_POSTGRES_DSN": make_conninfo(self._dsn, port=postgres_port),
        }
        self._start_anew(name)
        yield
        del self.routes[name]
        self._start_anew(name)

    def _start_anew(self, name: str) -> None:
        self.kill(shard_id := self.id_of(name))
        self.wait_replaced(shard_id)
        self.wait_whole()

    def arm(self, shard_id: str, step: str, number: signal.Signals) -> None:
        """It gets the signal when it comes to that step."""
        self.tell(f"{number.name} for {shard_id} at: {step}")
        (self._steps / f"{pid_of(shard_id)}.reached").unlink(missing_ok=True)
        fresh = self._steps / "fresh"
        fresh.write_text(f"{step} {number.name}")
        fresh.rename(self._steps / f"{pid_of(shard_id)}.armed")

    def comes_to_it(self, shard_id: str) -> bool:
        """Wait until it has come to the step. False: it ended before, as on a machine so busy that its lease
        was not renewed in time."""
        process, reached = self.process_of(shard_id), self._steps / f"{pid_of(shard_id)}.reached"
        self.wait(f"{shard_id} comes to the step", lambda: reached.exists() or process.poll() is not None)
        return reached.exists()

    def refused(self, shard_id: str) -> list[int]:
        """The partitions whose watermark it was not allowed to store."""
        file = self._steps / f"{pid_of(shard_id)}.refused"
        return [int(line) for line in file.read_text().splitlines()] if file.exists() else []

    def move(self, partition: int, target: str) -> None:
        """`shardctl partition move`, in this process."""
        self.tell(f"move {partition} to {target}")
        command = ["partition", "move", str(partition), "--to", target]
        answer = CliRunner().invoke(app, command, env=self._environment)
        assert answer.exception is None, answer.exception

    # --- what must hold ------------------------------------------------------------------------------

    def check(self) -> int:
        """Every time up to now ran once, or is on record as skipped, and nothing else is; how many there
        were."""
        found, through_ms = self.evidence()
        try:
            return judge(found, through_ms)
        except ViolationError as error:
            error.add_note("\n".join([*self._story, self.logs()]))
            raise

    def evidence(self) -> tuple[Evidence, int]:
        """What there is to see once everything is over that was due by now, and that time."""
        self.people.settle()
        through_ms = self.now_ms()
        self.wait("everything was claimed", lambda: min(self._fired_and_claimed_ms()) > through_ms)
        found: list[Evidence] = []

        def over() -> bool:
            with self.connect() as conn:
                found[:] = [read_evidence(conn, self._runs)]
            return is_quiet(found[0].tables, through_ms)

        try:
            self.wait("everything is over", over)
        except AssertionError as error:
            error.add_note(why_not_quiet(found[0].tables, through_ms))
            raise
        return found[0], through_ms

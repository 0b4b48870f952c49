"""The watcher: looks every 10 s, puts on record what is wrong, and tells each receiver until it has heard.

    shards    0.5 s       who is alive: a shard that says it leaves is heard, and not missed
    look      10 s        figures → rules → alerts in PostgreSQL
    deliver   2 s         what receivers have not been told yet → webhooks

Everything that must survive stands in PostgreSQL. Of several watchers one watches, by a lease in a row there;
what it does is fenced by that row. With PostgreSQL itself out of reach nothing can be put on record: that
alone is told from memory, and may be told twice if the watcher restarts meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import trio

from shardwheel.alert import Alert, Delivery, Finding, TableFigures
from shardwheel.alerts.gather import Gather
from shardwheel.alerts.judging import Judge
from shardwheel.alerts.notices import Receiver
from shardwheel.alerts.outage import Outage
from shardwheel.alerts.roll import Roll
from shardwheel.alerts.rules import Rule
from shardwheel.clock import DatabaseClock
from shardwheel.errors import UnavailableError
from shardwheel.logs import get_logger
from shardwheel.service import Service

LOOK_S = 10.0
SHARDS_S = 0.5
DELIVER_S = 2.0
LEASE_S = 30.0
FORGET_EVERY = 360
STANDS_BY = "stands by: another process watches"


class AlertStore(Protocol):
    """What the watcher asks of the store."""

    async def now_ms(self) -> float: ...
    async def take_watch(self, holder: str, lease_s: float) -> bool: ...
    async def leave_watch(self, holder: str) -> None: ...
    async def figures(self) -> TableFigures: ...
    async def open_alerts(self) -> list[Alert]: ...
    async def store_look(
        self, holder: str, findings: Sequence[Finding], resolved: Sequence[bytes]
    ) -> bool: ...
    async def begin_deliveries(self, holder: str, receivers: Sequence[str]) -> list[Delivery]: ...
    async def end_delivery(self, delivery: Delivery, error: str | None) -> None: ...
    async def forget(self) -> int: ...


Post = Callable[[str, dict[str, Any]], Awaitable[None]]


class Watch:
    def __init__(
        self,
        holder: str,
        service: Service,
        store: AlertStore,
        gather: Gather,
        roll: Roll,
        clock: DatabaseClock,
        table: Mapping[str, Rule],
        receivers: Sequence[Receiver],
        post: Post,
        *,
        cluster: str,
        wall_ms: Callable[[], float],
        monotonic: Callable[[], float] = trio.current_time,
    ) -> None:
        self._holder = holder
        self._service = service
        self._store = store
        self._gather = gather
        self._roll = roll
        self._clock = clock
        self._judge = Judge(table)
        self._receivers = {receiver.name: receiver for receiver in receivers}
        self._post = post
        self._cluster = cluster
        self._outage = Outage(table["unreachable"], "PostgreSQL", cluster, wall_ms)
        self._monotonic = monotonic
        self._looks = 0
        self._log = get_logger(role="alerts")
        self.watches = False

    def add_to_service(self) -> None:
        self._service.add_loop("look", self._every("look", LOOK_S, self.look))
        self._service.add_loop("shards", self._every("shards", SHARDS_S, self._note_shards))
        self._service.add_loop("deliver", self._every("deliver", DELIVER_S, self.deliver))
        self._service.add_loop("leave", self._leave)

    # --- steps ---------------------------------------------------------------------------------------

    async def look(self) -> str | None:
        """One look, if this process watches; else the remark that another one does."""
        try:
            remark = await self._look()
        except UnavailableError:
            await self._tell_all(self._outage.silent(self._monotonic()))
            raise
        await self._tell_all(self._outage.reached(self._monotonic()))
        return remark

    async def deliver(self) -> None:
        """One round of telling: each receiver what it has not heard yet, all of them at once."""
        if not self.watches:
            return
        begun = await self._store.begin_deliveries(self._holder, list(self._receivers))
        async with trio.open_nursery() as nursery:
            for delivery in begun:
                nursery.start_soon(self._tell, delivery)

    async def _look(self) -> str | None:
        if not await self._takes_watch():
            return STANDS_BY
        await self._clock.run_once(self._store)
        open_alerts = await self._store.open_alerts()
        self._roll.restore(open_alerts)
        look = await self._gather.look(await self._store.figures())
        verdict = self._judge.judge(look, open_alerts)
        self.watches = await self._store.store_look(self._holder, verdict.findings, verdict.resolved)
        self._say(verdict.findings, {(alert.rule, alert.subject) for alert in open_alerts})
        if self._looks % FORGET_EVERY == 0:
            await self._store.forget()
        self._looks += 1
        return None

    async def _takes_watch(self) -> bool:
        watches = await self._store.take_watch(self._holder, LEASE_S)
        if watches != self.watches:
            self._log.info("watches" if watches else STANDS_BY)
        self.watches = watches
        return watches

    async def _note_shards(self) -> None:
        if self._clock.is_measured:
            await self._gather.look_for_shards()

    async def _tell(self, delivery: Delivery) -> None:
        error = await self._heard(self._receivers[delivery.receiver], delivery)
        try:
            await self._store.end_delivery(delivery, error)
        except UnavailableError as away:
            # It was told and nobody remembers: it will be told again, under the same key.
            self._log.warning("not on record", receiver=delivery.receiver, reason=str(away))

    async def _tell_all(self, delivery: Delivery | None) -> None:
        """From memory, to everybody, once: for when nothing can be put on record."""
        if delivery is None:
            return
        async with trio.open_nursery() as nursery:
            for receiver in self._receivers.values():
                nursery.start_soon(self._heard, receiver, delivery)

    async def _heard(self, receiver: Receiver, delivery: Delivery) -> str | None:
        """None when it was heard, else why not."""
        try:
            await self._post(receiver.url, receiver.body(delivery, self._cluster))
        except UnavailableError as error:
            self._log.warning(
                "not heard", receiver=receiver.name, rule=delivery.alert.rule, reason=str(error)
            )
            return str(error)
        self._log.info("told", receiver=receiver.name, rule=delivery.alert.rule, what=delivery.tell)
        return None

    def _say(self, findings: Sequence[Finding], known: set[tuple[str, str]]) -> None:
        """In the log too: whoever has no receiver finds it there."""
        for finding in findings:
            if (finding.rule, finding.subject) not in known:
                self._log.warning(
                    "alert", rule=finding.rule, severity=finding.severity, sentence=finding.sentence
                )

    # --- loops ---------------------------------------------------------------------------------------

    def _every(
        self, part: str, pause_s: float, step: Callable[[], Awaitable[str | None]]
    ) -> Callable[[], Awaitable[None]]:
        """A loop that makes a step and says how it went, until the service stops."""

        async def loop() -> None:
            while not self._service.stopping.is_set():
                next_s = trio.current_time() + pause_s
                try:
                    self._service.health.well(part, await step() or "ok")
                except UnavailableError as error:
                    self._service.health.unwell(part, str(error))
                with trio.move_on_at(next_s):
                    await self._service.stopping.wait()

        return loop

    async def _leave(self) -> None:
        """At SIGTERM: whoever stands by watches at once."""
        await self._service.stopping.wait()
        try:
            await self._store.leave_watch(self._holder)
        except UnavailableError as error:
            self._log.warning("could not leave", reason=str(error))

"""The lag breaker: how far settling is behind, and whether so far that what can wait has to wait.

    lag   4,000   11,000   9,000   3,000   1,900   9,000
          closed  open     open    open    closed  closed

Two marks, so that it does not flutter at one. While it is open, the processor settles statuses, attempts,
retries, dead letters and slots as always, all in one transaction, and only writes down which DAG runs are to
be told of which ends: no run is locked, no child is queued, no run ends. Once it is closed, `catching_up`
tells them.
"""

from __future__ import annotations

import trio

from shardwheel.errors import NotFoundError, UnavailableError
from shardwheel.lag import lag_of
from shardwheel.logs import get_logger
from shardwheel.metrics import RESULTS_BREAKER, RESULTS_LAG
from shardwheel.ports import Bus
from shardwheel.service import Service
from shardwheel.topics import RESULTS, RESULTS_GROUP

OPEN_ABOVE = 10_000
CLOSE_BELOW = 2_000
MEASURE_S = 1.0


class LagBreaker:
    """Open or closed, by the lag it is told. Pure."""

    def __init__(self) -> None:
        self.is_open = False

    def note(self, lag: int) -> bool:
        """Take in a measured lag; true when that opened or closed it."""
        was_open = self.is_open
        self.is_open = lag >= CLOSE_BELOW if was_open else lag > OPEN_ABOVE
        return self.is_open != was_open


class LagWatch:
    """Measures the lag of all results, whoever settles them: what is put off is put off by everybody."""

    def __init__(self, service: Service, bus: Bus, breaker: LagBreaker) -> None:
        self._service = service
        self._bus = bus
        self._log = get_logger(role="results")
        self.breaker = breaker

    def add_to_service(self) -> None:
        self._service.add_loop("lag", self._run)

    async def _run(self) -> None:
        while not self._service.stopping.is_set():
            await self.run_once()
            with trio.move_on_after(MEASURE_S):
                await self._service.stopping.wait()

    async def run_once(self) -> None:
        """Measure once. A broker that does not answer leaves all as it was."""
        try:
            lag = await lag_of(self._bus, RESULTS_GROUP, [RESULTS])
        except (UnavailableError, NotFoundError) as error:
            self._service.health.unwell("lag", str(error))
            return
        if self.breaker.note(lag):
            self._log.warning("breaker", state="open" if self.breaker.is_open else "closed", lag=lag)
        RESULTS_LAG.set(lag)
        RESULTS_BREAKER.set(self.breaker.is_open)
        # Late, but at work: no reason for whoever supervises to end the process.
        remark = f"breaker open: {lag} results behind, DAGs wait" if self.breaker.is_open else "ok"
        self._service.health.well("lag", remark)

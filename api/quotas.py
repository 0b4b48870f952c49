"""What one tenant may ask for: jobs a second, active jobs, params, the size of DAGs. Beyond it is 429, with
when to come again; what is too large in itself is 413.

All of it is per API process: a bucket of tokens for what is submitted, and a count of active jobs that is
read from PostgreSQL every ten seconds and kept up in between. So n processes allow n times the rate, and the
number of active jobs may be overshot by what was stored within ten seconds elsewhere. Cheap is worth more
here than exact: the limits protect the others, they are no bill.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from shardwheel.dag import DagPosting
from shardwheel.errors import LimitedError, TooLargeError, UnavailableError
from shardwheel.jsonb import bytes_when_read
from shardwheel.posting import JobPosting
from shardwheel.store.idempotency import are_known
from shardwheel.store.tenant_limits import Quota, Standing, read_standing
from shardwheel.store.tenant_pool import TenantPool

FRESH_S = 10.0
MOST_TENANTS = 10_000


class Account:
    """How one tenant stands. A batch may go below zero, and what comes next waits for it."""

    def __init__(self, standing: Standing, now_s: float) -> None:
        self.quota, self.active = standing
        self.read_at_s = now_s
        self._filled_at_s = now_s
        self._tokens = self._burst

    @property
    def _burst(self) -> float:
        return max(1.0, self.quota.submissions_per_s)

    def refresh(self, standing: Standing, now_s: float) -> None:
        self.quota, self.active = standing
        self.read_at_s = now_s

    def submit(self, count: int, now_s: float) -> None:
        rate = self.quota.submissions_per_s
        if rate <= 0:
            return
        self._tokens = min(self._burst, self._tokens + (now_s - self._filled_at_s) * rate)
        self._filled_at_s = now_s
        if self._tokens < 1:
            wait_s = math.ceil((1 - self._tokens) / rate)
            raise LimitedError(
                f"submissions_per_s: more than {rate:g} a second; try again in {wait_s} s",
                field="submissions_per_s",
                retry_after_s=wait_s,
            )
        self._tokens -= count

    def is_full(self, count: int) -> bool:
        """Whether so many more would be too many."""
        most = self.quota.active_jobs
        return most > 0 and self.active + count > most

    def add_active(self, count: int) -> None:
        if self.is_full(count):
            raise LimitedError(
                f"active_jobs: this tenant may have {self.quota.active_jobs}; pause or delete some, or let "
                "them complete",
                field="active_jobs",
                retry_after_s=int(FRESH_S),
            )
        self.active += count


class Quotas:
    """Belongs to the HTTP server's event loop. `usual`: what holds for a tenant without limits of its own."""

    def __init__(self, pool: TenantPool, usual: Quota, now_s: Callable[[], float]) -> None:
        self._pool = pool
        self._usual = usual
        self._now_s = now_s
        self._accounts: dict[str, Account] = {}
        self._reading: dict[str, asyncio.Task[Account]] = {}

    async def admit(self, tenant: str, postings: Sequence[JobPosting]) -> None:
        """Before jobs are stored."""
        account = await self._account(tenant)
        for posting in postings:
            _check_params(posting.params, account.quota)
        account.submit(len(postings), self._now_s())
        keys = [posting.idempotency_key for posting in postings]
        await self._add_active(tenant, account, len(postings), keys)

    async def admit_dag(self, tenant: str, posting: DagPosting, key: str | None) -> None:
        """Before a DAG is stored: one thing submitted, but each task is a job."""
        account = await self._account(tenant)
        _check_dag(posting, account.quota)
        account.submit(1, self._now_s())
        await self._add_active(tenant, account, 1 + len(posting.tasks), [key])

    async def admit_dag_edit(self, tenant: str) -> Callable[[DagPosting], None]:
        """Before a DAG is edited: what looks at what it becomes. Who has too much already may not add."""
        account = await self._account(tenant)
        account.submit(1, self._now_s())
        account.add_active(0)
        return partial(_check_dag, quota=account.quota)

    async def admit_params(self, tenant: str, params: object) -> None:
        """Before params are stored with an edit, or for one run."""
        _check_params(params, (await self._account(tenant)).quota)

    async def admit_wish(self, tenant: str) -> None:
        """Before a job is edited, or runs are asked for: a trigger, a backfill, a redrive, a rerun."""
        (await self._account(tenant)).submit(1, self._now_s())

    async def admit_active(self, tenant: str) -> None:
        """Before a job that is not active becomes so again."""
        (await self._account(tenant)).add_active(1)

    async def _add_active(
        self, tenant: str, account: Account, count: int, keys: Sequence[str | None]
    ) -> None:
        """Whoever sends again what was answered gets that answer, and adds nothing: it may be that of the
        last job that there was room for."""
        if account.is_full(count) and await self._pool.run(tenant, are_known, keys):
            return
        account.add_active(count)

    async def _account(self, tenant: str) -> Account:
        account = self._accounts.get(tenant)
        if account is not None and self._now_s() < account.read_at_s + FRESH_S:
            return account
        if tenant not in self._reading:
            self._reading[tenant] = asyncio.create_task(self._read(tenant))
        # Whoever goes away meanwhile does not take the others' answer along.
        return await asyncio.shield(self._reading[tenant])

    async def _read(self, tenant: str) -> Account:
        account = self._accounts.get(tenant)
        try:
            standing = await self._pool.run(tenant, read_standing, self._usual)
        except UnavailableError:
            if account is None:
                raise
            return account
        finally:
            del self._reading[tenant]
        if account is None:
            if len(self._accounts) >= MOST_TENANTS:
                self._accounts.clear()
            account = self._accounts[tenant] = Account(standing, self._now_s())
        account.refresh(standing, self._now_s())
        return account


def _check_params(params: object, quota: Quota, where: str = "") -> None:
    if not quota.params_bytes:
        return
    size, field = bytes_when_read(params, msgspec.json.encode(params)), f"{where}params"
    if size > quota.params_bytes:
        remedy = f"this tenant may send {quota.params_bytes}, so store what is large elsewhere"
        raise TooLargeError(f"{field}: have {size} bytes; {remedy}", field=field)


def _check_dag(posting: DagPosting, quota: Quota) -> None:
    most, size = quota.dag_tasks, len(posting.tasks)
    if most and size > most:
        raise TooLargeError(f"tasks: has {size} tasks; this tenant may have {most} in a DAG", field="tasks")
    for place, task in enumerate(posting.tasks):
        _check_params(task.job.params, quota, f"tasks[{place}].")

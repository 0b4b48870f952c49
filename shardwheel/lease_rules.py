"""What holds for every implementation of `Leases`, real or in memory: limits, and the election.

Both edges call the same checks, so that a mistake shows in a unit test already and not only against a
server. The election is written once, on `range` and `txn` alone. It never trusts memory: who leads is
what a linearizable read says.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwheel.errors import NotFoundError, UsageError
from shardwheel.ports import TXN_OPERATIONS_LIMIT, Compare, Delete, KeyValue, Leases, Put


def check_txn(compare: Sequence[Compare], then: Sequence[Put | Delete]) -> None:
    """Refuse what etcd would refuse, before anything is sent."""
    for name, given in (("compare", compare), ("then", then)):
        if len(given) > TXN_OPERATIONS_LIMIT:
            raise UsageError(
                f"{name}: a transaction takes at most {TXN_OPERATIONS_LIMIT}, not {len(given)}: split it",
                field=name,
            )
    if len({operation.key for operation in then}) < len(then):
        raise UsageError("then: a transaction may write each key only once", field="then")


def check_ttl(ttl_s: int) -> None:
    if ttl_s < 1:
        raise UsageError(f"ttl_s: a lease lasts at least 1 second, not {ttl_s}", field="ttl_s")


def check_from_revision(from_revision: int) -> None:
    """0 would mean "from now on" to etcd, which leaves a gap after the caller's last read."""
    if from_revision < 1:
        raise UsageError(
            f"from_revision: a watch starts at a revision from 1 on, not {from_revision}: "
            "read the prefix first and pass its revision + 1",
            field="from_revision",
        )


class KeyElection:
    """Leadership by a key that is bound to the leader's lease.

    A candidate leads while the key holds its own lease and value: a transaction that finds the key
    absent writes it, and the lease's end deletes it. An answer lost on the way does no harm, since the
    next campaign reads first and finds its own key.
    """

    def __init__(self, leases: Leases, key: str, lease: int, value: bytes) -> None:
        self._leases = leases
        self._key = key
        self._lease = lease
        self._value = value

    async def campaign(self) -> bool:
        leader = await self.leader()
        if leader is not None:
            return self._is_mine(leader)
        try:
            taken = await self._leases.txn(
                [Compare(self._key, 0)], [Put(self._key, self._value, self._lease)]
            )
        except NotFoundError:  # The lease is gone: this candidate can lead nothing any more.
            return False
        return taken.succeeded

    async def resign(self) -> None:
        leader = await self.leader()
        if leader is not None and self._is_mine(leader):
            # The comparison protects a successor that took the key since the read.
            await self._leases.txn([Compare(self._key, leader.mod_revision)], [Delete(self._key)])

    async def leader(self) -> KeyValue | None:
        snapshot = await self._leases.range(self._key)
        return next((item for item in snapshot.items if item.key == self._key), None)

    def _is_mine(self, leader: KeyValue) -> bool:
        return leader.lease == self._lease and leader.value == self._value

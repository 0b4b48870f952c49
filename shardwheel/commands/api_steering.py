"""How the API steers the cluster: the coordinator's own wishes, said from a thread to the process's trio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from shardwheel.api.desk import ClusterFacts, Steered
from shardwheel.commands.cluster import standing
from shardwheel.coordinator import steering
from shardwheel.coordinator.progress import moves_to_balance
from shardwheel.ports import Leases

T = TypeVar("T")


class Errand(Protocol):
    """Does something with etcd where etcd is spoken to, while the caller's thread waits."""

    def __call__(self, work: Callable[[Leases], Awaitable[T]]) -> T: ...


class CoordinatorSteering:
    """`api.steering.Steering`, as `shardctl shard drain` and `shardctl rebalance` do it."""

    def __init__(self, errand: Errand) -> None:
        self._errand = errand

    def drain(self, shard_id: str) -> Steered:
        return self._steer(lambda leases: steering.drain(leases, shard_id))

    def undrain(self, shard_id: str) -> Steered:
        return self._steer(lambda leases: steering.undrain(leases, shard_id))

    def rebalance(self) -> Steered:
        return self._steer(steering.rebalance)

    def move(self, partition: int, shard_id: str) -> Steered:
        return self._steer(lambda leases: steering.pin(leases, partition, shard_id))

    def switch(self, automatic: bool) -> Steered:
        return self._steer(lambda leases: steering.switch(leases, automatic=automatic))

    def standing(self, facts: ClusterFacts) -> dict[str, Any]:
        return standing(self._errand(steering.look), facts)

    def _steer(self, change: Callable[[Leases], Awaitable[None]]) -> Steered:
        async def work(leases: Leases) -> Steered:
            before = await steering.look(leases)
            await change(leases)
            after = await steering.look(leases)
            return Steered(before, after, len(moves_to_balance(after)))

        return self._errand(work)

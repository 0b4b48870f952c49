"""Calls about the cluster: shards, partitions, the wheel, the audit, alerts."""

from __future__ import annotations

from shardwheel.client.calls import Calls, part, words
from shardwheel.client.cluster_answers import (
    Alert,
    AuditEntry,
    Automatic,
    MovedPartition,
    Partition,
    Pool,
    Rebalance,
    RebalanceStatus,
    Shard,
    SteeredShard,
    Wheel,
)
from shardwheel.client.method import Listing, listing, method
from shardwheel.client.posted import Duration, Time
from shardwheel.client.script import Script


class ClusterCalls(Calls):
    @listing
    def shards(self) -> Listing[Shard]:
        """The shards that are alive."""
        return Listing("/shards", {}, Shard, paged=False)

    @listing
    def partitions(self) -> Listing[Partition]:
        """Every partition: who owns it, how far it was fired."""
        return Listing("/partitions", {}, Partition, paged=False)

    @method
    def wheel(
        self, from_: Time | None = None, to: Time | None = None, *, buckets: int | None = None
    ) -> Script[Wheel]:
        """How many entries are due when, by shard; of the next hour, if nothing is said."""
        return self._ask("GET", "/wheel", Wheel, query=words(from_=from_, to=to, buckets=buckets))

    @method
    def rebalance(self) -> Script[Rebalance]:
        """Give every shard its share of the partitions. Asked for then, not done: see `partitions`."""
        return self._ask("POST", "/rebalance", Rebalance, body={})

    @method
    def rebalance_status(self) -> Script[RebalanceStatus]:
        """Where a rebalance stands, with the reason and what to do; and what one would move."""
        return self._ask("GET", "/rebalance", RebalanceStatus)

    @method
    def rebalance_automatically(self, automatic: bool) -> Script[Automatic]:
        """Whether partitions are levelled whenever a shard joins or leaves. Said twice, the same."""
        return self._ask("PATCH", "/rebalance", Automatic, body={"automatic": automatic})

    @method
    def move_partition(self, partition: int, to: str) -> Script[MovedPartition]:
        """Let a shard own a partition, until a rebalance or the shard's end. Said twice, the same."""
        return self._ask("POST", f"/partitions/{part(str(partition))}:move", MovedPartition, body={"to": to})

    @listing
    def pools(self) -> Listing[Pool]:
        """The pools of workers, and how far each is behind."""
        return Listing("/pools", {}, Pool, paged=False)

    @method
    def drain(self, shard_id: str) -> Script[SteeredShard]:
        """Let a shard hand over all it owns. Said twice, the same."""
        return self._ask("POST", f"/shards/{part(shard_id)}:drain", SteeredShard, body={})

    @method
    def undrain(self, shard_id: str) -> Script[SteeredShard]:
        """Let a drained shard take its share again."""
        return self._ask("POST", f"/shards/{part(shard_id)}:undrain", SteeredShard, body={})

    @listing
    def audit(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        object_kind: str | None = None,
        object_id: str | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        limit: int | None = None,
    ) -> Listing[AuditEntry]:
        """Who did what, latest first."""
        what = {"actor": actor, "action": action, "object_kind": object_kind, "object_id": object_id}
        return Listing("/audit", words(**what, from_=from_, to=to), AuditEntry, limit)

    @listing
    def alerts(self, *, state: str | None = None, limit: int | None = None) -> Listing[Alert]:
        """What is wrong with the cluster, the newest first: open ones, if no `state` is given."""
        return Listing("/alerts", words(state=state), Alert, limit)

    @method
    def silence_alert(self, alert_id: str, for_: Duration = "1h") -> Script[Alert]:
        """Tell nobody of it for a while; 0 ends a silence."""
        return self._ask("POST", f"/alerts/{part(alert_id)}:silence", Alert, body={"for": for_})

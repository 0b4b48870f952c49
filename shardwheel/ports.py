"""What the rooms are given: Store, Bus and Leases, as protocols.

Declared here, by who uses them; implemented by the edges (`store`, `kafka`, `etcd`) and by their
in-memory twins (`memory`). One contract suite (tests/contract) runs on both. Every call has a time
limit and fails with `UnavailableError` when the server is out of reach; none waits for ever.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

# --- Bus: Kafka -------------------------------------------------------------------------------------


class Message(NamedTuple):
    """One message to publish: to exactly this topic partition, so that the partitioner is ours."""

    topic: str
    topic_partition: int
    key: bytes
    value: bytes


class Record(NamedTuple):
    """One message as consumed."""

    topic: str
    topic_partition: int
    offset: int
    key: bytes
    value: bytes


class TopicPartition(NamedTuple):
    topic: str
    topic_partition: int


class TopicSpec(NamedTuple):
    """A topic that must exist, with its number of topic partitions and its retention."""

    name: str
    topic_partitions: int
    retention_ms: int


class Producer(Protocol):
    """Publishes whole cycles in order and tells how far all of them are acknowledged.

    Belongs to the trio thread that made it. What is not acknowledged is published again whenever the
    broker may have lost it: a message may arrive twice, never not at all, and never out of order within
    its topic partition (the first copies of all messages stand in the order of publishing).
    """

    def publish(self, messages: Sequence[Message]) -> int:
        """Take one cycle and return its ticket (1, 2, …). Never blocks and never drops.

        Raises `UnavailableError` when the bounded buffer has no room; then nothing of it was taken. An
        empty buffer takes a cycle of any size: one that is larger than the buffer must not be stuck.
        An empty cycle is legal: it is acknowledged when all before it are, never within this call.
        `UsageError` for a message that no broker would take (too large).
        """

    @property
    def acknowledged(self) -> int:
        """The largest ticket such that it and every ticket before it is acknowledged by the broker.

        The producer's `on_acknowledged` has been called with it before it can be read here.
        """

    @property
    def room(self) -> int:
        """How many messages `publish` would take now."""

    async def wait_acknowledged(self, ticket: int) -> None:
        """Return once `acknowledged >= ticket`; the caller sets the time limit (trio.fail_after).
        `UnavailableError` when the producer is closed before that."""

    async def close(self) -> None:
        """Wait a bounded time for what is under way, then let go: `acknowledged` says what arrived."""


class Consumer(Protocol):
    """One member of a consumer group. Offsets are committed by the caller, after the claim.

    One call at a time: a `commit` waits for a `take` that is under way, and the other way round.
    """

    async def take(self, most: int, wait_s: float) -> list[Record]:
        """Up to `most` records, as soon as there are any; none after `wait_s`. Keeps the membership alive.

        A broker that is away looks like an empty topic. A cancelled `take` ends after `wait_s` at most.
        """

    async def commit(self, records: Iterable[Record]) -> None:
        """Commit the offsets after these records. Of each topic partition the largest counts.

        Returns once the broker has stored them, and whatever was owed before. Those of a topic partition
        that has meanwhile gone to another member are dropped quietly: that member reads them again, and the
        claim drops the repeats. After `UnavailableError` (the time limit passed) they are still owed, and
        sent again by later calls.
        """

    def commit_soon(self, records: Iterable[Record]) -> None:
        """As `commit`, but nobody waits: sent with the next call, and again until it is stored."""

    @property
    def gaps(self) -> frozenset[TopicPartition]:
        """Where records were lost before this consumer could read them: retention overtook the group, or
        the data went back. It goes on at the first record there is. Look after each `take`, before `commit`.
        """

    def pause(self) -> None:
        """Take nothing more (membership is kept by further `take` calls, which return nothing)."""

    def resume(self) -> None:
        """Go on where `pause` stopped: no record is missing, none comes twice."""

    async def close(self) -> None:
        """Leave the group, so that the others take over at once; in bounded time."""


class Bus(Protocol):
    """Kafka as the rooms see it. Calls about topics that are not there raise `NotFoundError`."""

    def producer(self, on_acknowledged: Callable[[int], None] | None = None) -> Producer:
        """A producer of its own. `on_acknowledged` gets each new value of `acknowledged`, in the trio
        thread, before anyone can read it there; it must not raise."""

    def consumer(self, group: str, topics: Sequence[str]) -> Consumer:
        """A new member of the group; it starts at the committed offsets, else at the oldest records."""

    async def ensure_topics(self, specs: Sequence[TopicSpec]) -> None:
        """Create what is missing. A topic with another number of topic partitions is a `UsageError`."""

    async def generation(self, topics: Sequence[str]) -> str:
        """Names Kafka's data: cluster id and topic ids. Another value means that the data was lost."""

    async def start_offsets(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        """The oldest record still there: a group that stands below has lost records to retention."""

    async def end_offsets(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        """The offset that the next record will get."""

    async def committed_offsets(self, group: str, topics: Sequence[str]) -> dict[TopicPartition, int]:
        """Where the group stands; a topic partition without a commit is left out."""


# --- Leases: etcd -----------------------------------------------------------------------------------


TXN_OPERATIONS_LIMIT = 128  # etcd's own default; compares and operations are counted apart.


class KeyValue(NamedTuple):
    """One key as read. Keys are relative to the cluster ("shards/a1"): the edge adds what is before."""

    key: str
    value: bytes
    mod_revision: int
    create_revision: int
    lease: int


class Snapshot(NamedTuple):
    """A linearizable read of a prefix, in key order: a watch goes on from `revision + 1`."""

    items: tuple[KeyValue, ...]
    revision: int


class Compare(NamedTuple):
    """A condition of a transaction: the key's mod revision (0: absent)."""

    key: str
    mod_revision: int


class Put(NamedTuple):
    """Write a key; with a lease it is deleted when the lease ends."""

    key: str
    value: bytes
    lease: int = 0


class Delete(NamedTuple):
    """Delete a key; one that is not there is no error."""

    key: str


class TxnResult(NamedTuple):
    """Whether the comparisons held, and the revision: of what was written, or of the look that failed."""

    succeeded: bool
    revision: int


class KeyEvent(NamedTuple):
    """A change seen by a watch; `item` is None when the key was deleted."""

    key: str
    item: KeyValue | None
    revision: int


class Election(Protocol):
    """One candidate for one key: whoever has written it, bound to a live lease, leads."""

    async def campaign(self) -> bool:
        """Try once to become the leader; true when this candidate leads (now or already).

        False too when the candidate's own lease is gone. After an `UnavailableError` the answer is
        unknown: campaign again.
        """

    async def resign(self) -> None:
        """Stop leading, if this candidate leads; another one's leadership is never touched."""

    async def leader(self) -> KeyValue | None:
        """Who leads now: the key as the leader wrote it, or None."""


class Leases(Protocol):
    """etcd as the rooms see it: liveness, ownership, plans.

    Every call raises `UnavailableError` once its time limit has passed; `maybe_applied` is then true
    when a write was sent and its answer lost: read again before you conclude anything.
    """

    async def range(self, prefix: str) -> Snapshot:
        """All keys that start with the prefix, as they were at one revision."""

    async def txn(self, compare: Sequence[Compare], then: Sequence[Put | Delete]) -> TxnResult:
        """All or nothing, if every comparison holds. At most 128 comparisons and 128 operations, each
        key written once, else `UsageError`. `NotFoundError` when a put names a lease that is gone."""

    async def grant(self, ttl_s: int) -> int:
        """A new lease's id. The server may grant a longer TTL than asked for (etcd: at least 2 s)."""

    async def keep_alive(self, lease: int) -> bool:
        """Renew once; false when the lease is gone: the holder must start over as somebody new."""

    async def revoke(self, lease: int) -> None:
        """End the lease and delete its keys now. One that is gone already is no error."""

    def watch(
        self, prefix: str, from_revision: int
    ) -> AbstractAsyncContextManager[AsyncIterator[Sequence[KeyEvent] | None]]:
        """Batches of events from `from_revision` on, in order. `None` says: something was compacted away
        or the stream was cut in a way that may have lost events; read the prefix again. It waits out a
        server that is away, for as long as that takes. A hint only."""

    def election(self, key: str, lease: int, value: bytes) -> Election: ...


class Doors(Protocol):
    """The doors of other shards."""

    async def until_gone(self, address: str, shard_id: str) -> None:
        """Hold a connection to that shard; return once it broke and reconnecting is refused, or somebody
        else answers there. A door that is slow, or was never open, is no reason to return."""


# --- Store: PostgreSQL ------------------------------------------------------------------------------


class Identity(NamedTuple):
    """Which PostgreSQL this is: another system is a restore elsewhere, another timeline a fail-over."""

    system_identifier: int
    timeline: int


class PartitionState(NamedTuple):
    """One row of `partitions`: who may store its watermark, and how far it was fired and claimed.

    Kafka's generation and PostgreSQL's identity are those under which T and X were stored. Where they are
    not the present ones, fires or claims may be gone, and `reset_to_floor` comes before anything else.
    """

    partition: int
    epoch: int
    owner: str
    fired_through_ms: int
    horizon_xid: int
    floor_ms: int
    floor_xid: int
    kafka_generation: str
    identity: Identity


class Watermark(NamedTuple):
    """How far one partition was fired: fenced by the epoch under which its owner fires it."""

    partition: int
    epoch: int
    fired_through_ms: int
    horizon_xid: int


class Store(Protocol):
    async def now_ms(self) -> float:
        """The database's clock, in milliseconds since 1970."""

    async def identity(self) -> Identity: ...

    async def partitions(self, partitions: Sequence[int]) -> list[PartitionState]:
        """As committed now, in order of their numbers; unknown ones are left out."""

    async def take_partitions(self, seen: Mapping[int, int], owner: str) -> list[PartitionState]:
        """Bump the epoch of each partition whose epoch is still the one seen (partition → epoch);
        return those that were taken, with the watermarks to go on from. After a lost answer read them
        again: those that name this owner with the epoch seen + 1 were taken."""

    async def store_watermarks(self, watermarks: Sequence[Watermark], identity: Identity) -> set[int]:
        """Store all in one fenced statement; return the partitions that were refused.

        Accepted where the epoch is the row's, and `identity`, the one known to the owner, is the row's
        and the server's own: a fail-over that lost a take hands the same epoch out a second time.
        T and X never go backwards: a store that was overtaken by a later one changes nothing.
        """

    async def reset_to_floor(
        self, seen: Mapping[int, int], owner: str, *, kafka_generation: str, identity: Identity
    ) -> list[PartitionState]:
        """Take partitions like `take_partitions`, and set (T, X) back to the claim floor (F, X_F), from now
        on under this generation and identity; return those that were. The epoch is bumped so that a
        store of watermarks which is still under way can't undo it. Refused where `identity` is not the
        server's own, or the row is from another system: its xids must be rebased first."""

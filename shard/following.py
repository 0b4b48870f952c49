"""Following the plan: from each view of the cluster to what this shard does about it, in this order:

    drop what was taken from us → say our own state → look at the ground → hand over → release → claim
    → say what we hold ready

Every step is guarded by revisions or epochs, so an old view, a lost answer or a step done twice costs another
look, never more. What a step could not do is found again by the next view, within a second.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import groupby

import trio

from shardwheel.logs import get_logger
from shardwheel.metrics import TAKEOVER
from shardwheel.records import MemberState, View
from shardwheel.shard.ground import Ground
from shardwheel.shard.membership import Membership
from shardwheel.shard.mirror import PARTITIONS_AT_ONCE, Mirror
from shardwheel.shard.orders import Orders, orders
from shardwheel.shard.owner import Owner
from shardwheel.shard.suspicion import Suspicion
from shardwheel.shard.views import Views

GROUND_S = 1.0


class Following:
    """`run_once` does what the latest view asks for; `mirror_some` loads and follows what is mirrored."""

    def __init__(
        self,
        membership: Membership,
        owner: Owner,
        mirror: Mirror,
        views: Views,
        suspicion: Suspicion,
        *,
        read_ground: Callable[[], Awaitable[Ground]],
    ) -> None:
        self._shard_id = membership.member.shard_id
        self._membership = membership
        self._owner = owner
        self._mirror = mirror
        self._views = views
        self._suspicion = suspicion
        self._read_ground = read_ground
        self._ground_read_at = float("-inf")
        self.wants_changed = trio.Event()
        self._log = get_logger(shard=self._shard_id)

    @property
    def is_alone(self) -> bool:
        """Whether nobody else could take over what we own."""
        members = {} if self._views.view is None else self._views.view.members
        return not any(
            member.state == MemberState.ACTIVE
            for shard_id, member in members.items()
            if shard_id != self._shard_id
        )

    async def run_once(self) -> None:
        view = self._views.view
        if view is None:
            return
        seen_at = trio.current_time()
        given = orders(view, self._shard_id, self._owner.held, self._suspicion.may_replace)
        self._drop(given.drop, view)
        self._want(given)
        await self._membership.run_once(view)
        await self._check_ground()
        for partitions in _ready_together(given.hand_over):
            await self._owner.hand_over(partitions, view)
            self._log.info("handed over", partitions=len(partitions))
        await self._owner.release(given.release)
        if given.claim and not self._membership.leaving:
            for partition, owner in given.replace.items():
                self._suspicion.note_replaced(owner, partition)
            self._say_taken(await self._owner.take(given.claim, view), trio.current_time() - seen_at)
        await self._say_ready(given, view)

    async def mirror_some(self) -> None:
        before = len(self._mirror.shadows)
        if await self._mirror.run_once():
            self.wants_changed.set()
        if len(self._mirror.shadows) > before:
            self._views.hint()  # The next look says that they are ready.

    def _drop(self, partitions: list[int], view: View) -> None:
        if partitions:
            self._owner.drop(partitions)
            for partition in partitions:
                if partition in view.owners:
                    self._suspicion.note_replaced(view.owners[partition].shard_id, partition)
            self._log.warning("replaced", partitions=len(partitions))

    def _want(self, given: Orders) -> None:
        self._mirror.want(given.mirror, given.claim)
        if given.mirror.keys() - self._mirror.shadows.keys():
            self.wants_changed.set()

    async def _check_ground(self) -> None:
        """Kafka's data or PostgreSQL may be another one than before: then everything is taken anew, and what
        the claim floor does not vouch for is fired again. Once a second: a hand-over must not wait for it."""
        if trio.current_time() - self._ground_read_at < GROUND_S:
            return
        ground = await self._read_ground()
        self._ground_read_at = trio.current_time()
        if ground != (self._owner.generation, self._owner.identity):
            if self._owner.generation:
                timeline = ground.identity.timeline
                self._log.warning("the ground changed", generation=ground.generation, timeline=timeline)
            self._owner.drop(self._owner.partitions)
            self._owner.generation, self._owner.identity = ground

    async def _say_ready(self, given: Orders, view: View) -> None:
        """Of what is planned to us: what we hold passively may be handed over, what we don't may not."""
        loaded = {p for p in given.awaited if p in self._mirror.shadows}
        said = {p for p, holder in view.ready.items() if holder.shard_id == self._shard_id}
        await self._owner.say_ready(sorted(loaded - said), view)
        # Claiming deletes what was said: whatever a view still shows of that is no longer there.
        await self._owner.take_back_ready(sorted(said - loaded - self._owner.held.keys()), view)

    def _say_taken(self, taken: list[int], took_s: float) -> None:
        if taken:
            TAKEOVER.observe(took_s)
            self._log.info("took", partitions=len(taken), took_s=round(took_s, 3))


def _ready_together(hand_over: Mapping[int, int]) -> Iterable[list[int]]:
    """The partitions by the revision at which they became ready, a few at once: they were loaded together."""
    for _, group in groupby(sorted(hand_over, key=lambda p: (hand_over[p], p)), key=hand_over.__getitem__):
        partitions = list(group)
        for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
            yield partitions[start : start + PARTITIONS_AT_ONCE]

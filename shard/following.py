"""Following the plan: from each view of the cluster to what this shard does about it, in this order:

    drop what was taken from us → hand over → release → claim → say what we hold ready

Every step is guarded by revisions or epochs, so an old view, a lost answer or a step done twice costs another
look, never more. What a step could not do is found again by the next view, within a second. Whatever a move
need not wait for (our own state, the ground, loads) has a loop of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from shardwheel.logs import get_logger
from shardwheel.metrics import TAKEOVER
from shardwheel.records import MemberState, View
from shardwheel.shard.ground import Ground
from shardwheel.shard.membership import Membership
from shardwheel.shard.mirror import Mirror, Wants
from shardwheel.shard.orders import Orders, is_moving, orders
from shardwheel.shard.owner import Owner
from shardwheel.shard.suspicion import Suspicion
from shardwheel.shard.views import Views

# A millisecond's work or two, and a pause in which others have theirs.
ROWS_AT_ONCE = 1_000
BETWEEN_ROWS_S = 0.004


class Following:
    """`run_once` does what the latest view asks for; `mirror_some` loads and follows what is mirrored;
    `look_at_ground`, `say_state` and `clear_away` are for loops beside it. `poke`: let the intake read."""

    def __init__(
        self,
        membership: Membership,
        owner: Owner,
        mirror: Mirror,
        views: Views,
        suspicion: Suspicion,
        *,
        read_ground: Callable[[], Awaitable[Ground]],
        poke: Callable[[], None],
    ) -> None:
        self._shard_id = membership.member.shard_id
        self._membership = membership
        self._owner = owner
        self._mirror = mirror
        self._views = views
        self._suspicion = suspicion
        self._read_ground = read_ground
        self._poke = poke
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
        if view is None or view.revision < self._owner.revision:
            return  # It does not show yet what we did ourselves: the next one does.
        seen_at = trio.current_time()
        given = orders(view, self._shard_id, self._owner.partitions, self._suspicion.may_replace)
        self._drop(given.drop, view)
        self._want(given, view)
        if given.hand_over:
            await self._owner.hand_over(sorted(given.hand_over), view)
            took_s = round(trio.current_time() - seen_at, 3)
            self._log.info("handed over", partitions=len(given.hand_over), took_s=took_s)
        await self._owner.release(given.release)
        if given.claim and self._owner.ground is not None and not self._membership.leaving:
            self._say_taken(await self._claim(given, view), trio.current_time() - seen_at)
        await self._say_ready(given, view)

    async def mirror_some(self) -> None:
        if await self._mirror.run_once():
            self.wants_changed.set()
            self._views.hint()  # The next look says that they are ready.

    async def clear_away(self) -> None:
        """Remove what was let go from the wheels that held it, little by little and once nothing moves: no
        move waits for it."""
        view = self._views.view
        if view is None or is_moving(view):
            return
        for holding in {*self._owner.holdings, *self._mirror.shadows.values()}:
            while holding.clear_away(ROWS_AT_ONCE):
                await trio.sleep(BETWEEN_ROWS_S)

    async def say_state(self) -> None:
        if self._views.view is not None:
            await self._membership.run_once(self._views.view)

    async def look_at_ground(self) -> None:
        """Kafka's data or PostgreSQL may be another one than before: then everything is taken anew, and what
        the claim floor does not vouch for is fired again."""
        ground = await self._read_ground()
        before = self._owner.ground
        if ground == before:
            return
        if before is not None:
            timeline = ground.identity.timeline
            self._log.warning("the ground changed", generation=ground.generation, timeline=timeline)
        self._owner.drop(self._owner.partitions)
        self._owner.ground = ground
        self._views.hint()

    async def _claim(self, given: Orders, view: View) -> list[int]:
        for partition, owner in given.replace.items():
            self._suspicion.note_replaced(owner, partition)
        # While we write keys and bump epochs, the feed comes to where their last owner was.
        self._poke()
        return await self._owner.take(given.claim, view)

    def _drop(self, partitions: list[int], view: View) -> None:
        if partitions:
            self._owner.drop(partitions)
            for partition in partitions:
                if partition in view.owners:
                    self._suspicion.note_replaced(view.owners[partition].shard_id, partition)
            self._log.warning("replaced", partitions=len(partitions))

    def _want(self, given: Orders, view: View) -> None:
        if self._mirror.want(Wants(given.mirror, given.claim, given.awaited, is_moving(view))):
            self.wants_changed.set()

    async def _say_ready(self, given: Orders, view: View) -> None:
        """Of what is planned to us: what we hold passively may be handed over, what we don't may not. Each
        shadow at a revision of its own: it is handed over, and taken, as one."""
        said = {p for p, holder in view.ready.items() if holder.shard_id == self._shard_id}
        loaded: set[int] = set()
        for group in self._mirror.groups(given.awaited):
            loaded.update(group)
            if not said.issuperset(group):
                await self._owner.say_ready(group, view)
        # Claiming deletes what was said: whatever a view still shows of that is no longer there.
        await self._owner.take_back_ready(sorted(said - loaded - set(self._owner.partitions)), view)

    def _say_taken(self, taken: list[int], took_s: float) -> None:
        if taken:
            TAKEOVER.observe(took_s)
            self._log.info("took", partitions=len(taken), took_s=round(took_s, 3))

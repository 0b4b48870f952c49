"""Who may do what, in four steps: each role may do all that the one before it may."""

from __future__ import annotations

from enum import IntEnum

from shardwheel.errors import UsageError


class Role(IntEnum):
    """viewer looks; producer also stores, edits, deletes and triggers jobs and cancels runs (what programs
    do); operator also pauses, resumes, backfills and sees the cluster and the audit (what people on call do);
    admin also changes the cluster."""

    VIEWER = 1
    PRODUCER = 2
    OPERATOR = 3
    ADMIN = 4

    @property
    def word(self) -> str:
        return self.name.lower()


ROLE_WORDS = tuple(role.word for role in Role)


def role_of(word: object) -> Role:
    if word not in ROLE_WORDS:
        raise UsageError(
            f"role: {word!r:.40} is unknown; choose one of {', '.join(ROLE_WORDS)}", field="role"
        )
    return Role[str(word).upper()]

"""Every state and every reason, a line each."""

from __future__ import annotations

from tests.unit.explaining import dead, held, jobs, not_fired, over, running, skipped, waiting

CASES = [
    case for state in (not_fired, waiting, held, running, skipped, dead, over, jobs) for case in state.CASES
]

"""How long what is over is kept. Pure values; `store/retention` removes what is older."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, NamedTuple

# Kafka keeps fires and results so long, and up to a day more (a segment of its log goes as a whole). Far
# longer than any outage of workers or results may last; what is lost beyond it is fired again from the claim
# floor. The tables keep what ran longer still: a fire that is read again finds its row.
KAFKA_RETENTION_D: Final = 5


class Keep(NamedTuple):
    """For how long after its end. `succeeded`: executions that went well or were skipped; `failed`: those
    that were given up, cancelled or completed by hand, and spans of skipped and of expanded times."""

    succeeded: timedelta
    failed: timedelta
    dead_letters: timedelta
    audit: timedelta
    deleted_jobs: timedelta

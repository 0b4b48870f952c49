"""What is read as a cron expression, and what is refused with its reason."""

from __future__ import annotations

from random import Random

import pytest

from shardwheel.errors import UsageError
from shardwheel.expression import canonical_expression, compile_cron


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("0 0 30 2 *", "never fires: day of month 30 with day of week \\* does not occur in month 2"),
        ("0 0 31 4,6,9,11 *", "never fires"),
        ("* * * * * * *", "has 7 fields"),
        ("0 9 * *", "has 4 fields"),
        ("", "has 0 fields"),
        ("@reboot", "has 1 fields"),
        ("@every 5m", "has 2 fields"),
        ("0" * 257, "has 257 characters; at most 256"),
        ("60 * * * *", "minute '60' is not valid"),
        ("0 24 * * *", "hour '24' is not valid"),
        ("0 0 0 * *", "day of month '0' is not valid"),
        ("0 0 0 0 * *", "day of month '0' is not valid"),
        ("0 0 * 13 *", "month '13' is not valid"),
        ("0 0 * * 8", "day of week '8' is not valid"),
        ("0 0 * * 1#6", "day of week '1#6' is not valid"),
        ("61 0 0 * * *", "second '61' is not valid"),
        ("*/0 * * * *", "minute '\\*/0' is not valid"),
        ("a b c d e", "minute 'A' is not valid"),
        ("0 0 1W,15 * *", "day of month '1W,15' is not valid"),
        ("H * * * *", "minute 'H' is hashed or random"),
        ("0 R(1-5) * * *", "hour 'R\\(1-5\\)' is hashed or random"),
        ("h/15 0 0 * * *", "second 'H/15' is hashed or random"),
        ("5-5 * * * *", "minute '5-5' is a range with equal ends; write 5"),
        ("0 0 * * mon-1", "day of week 'MON-1' is a range with equal ends"),
        ("0 21-3/2 * * *", "hour '21-3/2' is a step over a range that wraps"),
        ("*/90 * * * *", "minute '\\*/90' steps over the whole field; for such an interval use `every`"),
        ("0 0 * * 1,2#3", "mixes plain days with # or L"),
        ("0 0 * * 0-6,5L", "mixes plain days with # or L"),
        ("٣ * * * *", "characters that cron does not know"),
    ],
)
def test_what_is_refused_and_why(expression: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as refusal:
        compile_cron(expression)
    assert refusal.value.field == "cron"


def test_one_spelling_per_expression() -> None:
    assert canonical_expression("  0  9 * *\tmon-fri ") == "0 9 * * MON-FRI"
    assert canonical_expression("@Daily") == "@daily"


def test_noise_is_refused_or_read_and_never_breaks() -> None:
    random = Random(256)
    read = 0
    for _ in range(3_000):
        words = (
            "".join(random.choices("0123579*/-,LW#?HRMONJA(.", k=random.choice((1, 1, 1, 2, 3, 5))))
            for _ in range(5)
        )
        try:
            compile_cron(" ".join(words))
            read += 1
        except UsageError:
            continue
    assert 0 < read < 3_000

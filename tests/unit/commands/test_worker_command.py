"""`shardctl worker`: an error from deep within its loops is told as what it is."""

from __future__ import annotations

from shardwheel.commands.worker import unwrapped
from shardwheel.errors import UsageError


def test_one_error_comes_out_of_its_wrappings_and_several_stay_together() -> None:
    error = UsageError("isolated: no")
    assert unwrapped(ExceptionGroup("outer", [ExceptionGroup("inner", [error])])) is error
    several = ExceptionGroup("two", [error, ValueError()])
    assert unwrapped(ExceptionGroup("outer", [several])) is several

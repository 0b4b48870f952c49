"""How an isolated attempt ended, judged from what its keeper saw and its child said. Pure.

A limit that was hit, or a death for whatever reason, is a failure of the attempt like any exception: the
worker is well, so it is no crash, and the job's backoff decides when to try again.
"""

from __future__ import annotations

import signal

import msgspec

from shardwheel.handler import Fatal, is_wait
from shardwheel.isolation import Limits
from shardwheel.wire import Outcome
from shardwheel.workers.ending import Told, encode_output, fit_to_tell, told
from shardwheel.workers.frames import Ended, Finished
from shardwheel.workers.run import End

_OUTCOMES = {
    "value": Outcome.SUCCEEDED,
    "retryable": Outcome.RETRYABLE,
    "fatal": Outcome.FATAL,
    "failed": Outcome.FAILED,
}


def verdict(ended: Ended, limits: Limits, known: tuple[str, ...]) -> End:
    if ended.finished is not None:
        return _as_told(ended.finished, known)
    if ended.overdue:
        return End(Outcome.TIMED_OUT, "TimeoutError", "it did not stop in time, and was killed")
    if _is_out_of_time(ended, limits):
        return _failure("CpuLimitExceeded", f"it used up its CPU time: cpu_s={limits.cpu_s}")
    if ended.out_of_memory:
        return _failure("MemoryLimitExceeded", "the kernel killed it: this machine was out of memory")
    return _failure("ChildDied", f"its process died: {_cause(ended.exit_code)}")


def _as_told(finished: Finished, known: tuple[str, ...]) -> End:
    """As the child tells it, checked: a handler may have written to its channel itself."""
    outcome = _OUTCOMES.get(finished.kind)
    if outcome is None:
        return _failure("ChildDied", f"its process spoke of an end we do not know: {finished.kind!r}"[:300])
    try:
        output = encode_output(msgspec.json.decode(finished.output), known) if finished.output else b""
    except (msgspec.DecodeError, UnicodeDecodeError, Fatal) as error:
        return End(Outcome.FATAL, *told(error, known))
    said = fit_to_tell(Told(finished.error_class, finished.message, finished.traceback), known)
    retry_after_ms = finished.retry_after_ms if is_wait(finished.retry_after_ms) else -1
    return End(outcome, *said, output, retry_after_ms)


def _is_out_of_time(ended: Ended, limits: Limits) -> bool:
    """SIGXCPU comes first; SIGKILL, a second later, meets who caught that."""
    killed = ended.exit_code == -signal.SIGKILL and ended.cpu_s >= limits.cpu_s
    return killed or ended.exit_code == -signal.SIGXCPU


def _cause(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"signal {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"signal {-exit_code}"


def _failure(error_class: str, message: str) -> End:
    return End(Outcome.FAILED, error_class, message)

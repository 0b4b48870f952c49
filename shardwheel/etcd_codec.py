"""etcd's JSON, both ways: pure, no I/O.

The gateway's JSON is protobuf's: bytes are base64, int64 come as strings, and what is false, zero or
empty is left out. msgspec does the first two (lax mode) and the defaults below do the third. What must
be there is required, so that an answer of something that is not etcd is refused and never read as
"nothing found".

Keys: the rooms say "shards/a1"; etcd holds "/shardwheel/<cluster>/shards/a1". Only `KeySpace` knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from shardwheel.errors import UsageError
from shardwheel.ports import Compare, Delete, KeyEvent, KeyValue, Put

UNKNOWN = 2
INVALID_ARGUMENT = 3
NOT_FOUND = 5
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
OUT_OF_RANGE = 11
UNAUTHENTICATED = 16

# gRPC's codes that say "the request is wrong"; repeating it elsewhere would not help. (6: exists
# already, 7: not allowed, 12: not implemented.) Every other code means a server in trouble.
_WRONG_REQUEST = {INVALID_ARGUMENT, NOT_FOUND, 6, 7, FAILED_PRECONDITION, OUT_OF_RANGE, 12, UNAUTHENTICATED}

# "Say who you are again", said with INVALID_ARGUMENT: no token, or one from before a change of users.
_TOKEN_MESSAGES = ("user name is empty", "revision of auth store is old")


class RefusedError(UsageError):
    """etcd understood the request and refuses it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(f"etcd refuses: {message}")
        self.code = code

    @property
    def wants_new_token(self) -> bool:
        if self.code == INVALID_ARGUMENT:
            return any(message in str(self) for message in _TOKEN_MESSAGES)
        return self.code == UNAUTHENTICATED


class ServerTroubleError(Exception):
    """etcd answered that it can't serve now: no leader, overloaded, out of time."""

    def __init__(self, message: str, *, not_applied: bool = False) -> None:
        super().__init__(message)
        self.not_applied = not_applied


class Header(msgspec.Struct):
    revision: int = 0


class WireKeyValue(msgspec.Struct):
    key: bytes
    value: bytes = b""
    create_revision: int = 0
    mod_revision: int = 0
    lease: int = 0


class RangeAnswer(msgspec.Struct):
    header: Header
    kvs: list[WireKeyValue] = []
    more: bool = False


class TxnAnswer(msgspec.Struct):
    header: Header
    succeeded: bool = False


class GrantAnswer(msgspec.Struct):
    id: int = msgspec.field(name="ID")


class RevokeAnswer(msgspec.Struct):
    header: Header


class StatusAnswer(msgspec.Struct):
    version: str


class TokenAnswer(msgspec.Struct):
    token: str


class _StreamFailure(msgspec.Struct):
    message: str = ""
    grpc_code: int = -1


class _KeepAliveResult(msgspec.Struct):
    header: Header
    ttl_s: int = msgspec.field(name="TTL", default=0)


class _KeepAliveAnswer(msgspec.Struct):
    result: _KeepAliveResult | None = None
    error: _StreamFailure = msgspec.field(default_factory=_StreamFailure)


class WireEvent(msgspec.Struct):
    kv: WireKeyValue
    type: str = "PUT"


class WatchResult(msgspec.Struct):
    header: Header
    created: bool = False
    canceled: bool = False
    compact_revision: int = 0
    events: list[WireEvent] = []


class _WatchAnswer(msgspec.Struct):
    result: WatchResult | None = None
    error: _StreamFailure = msgspec.field(default_factory=_StreamFailure)


decode_range = msgspec.json.Decoder(RangeAnswer, strict=False).decode
decode_txn = msgspec.json.Decoder(TxnAnswer, strict=False).decode
decode_grant = msgspec.json.Decoder(GrantAnswer, strict=False).decode
decode_revoke = msgspec.json.Decoder(RevokeAnswer, strict=False).decode
decode_status = msgspec.json.Decoder(StatusAnswer, strict=False).decode
decode_token = msgspec.json.Decoder(TokenAnswer, strict=False).decode
_keep_alive_decoder = msgspec.json.Decoder(_KeepAliveAnswer, strict=False)
_watch_decoder = msgspec.json.Decoder(_WatchAnswer, strict=False)


def decode_keep_alive(content: bytes) -> bool:
    """Whether the lease lives: a dead one has no TTL.

    A failure comes with HTTP 200 too, as the first message of a stream. It is not the news that the
    lease is gone, so it must never be read as that.
    """
    answer = _keep_alive_decoder.decode(content)
    if answer.result is None:
        raise error_by_code(answer.error.grpc_code, answer.error.message or "an empty answer")
    return answer.result.ttl_s > 0


def decode_watch(line: bytes) -> WatchResult:
    """One message of a watch; one that was cancelled for another reason than compaction is an error."""
    answer = _watch_decoder.decode(line)
    if answer.result is None:
        raise error_by_code(answer.error.grpc_code, answer.error.message or "an empty message")
    if answer.result.canceled and not answer.result.compact_revision:
        raise ServerTroubleError("the watch was cancelled")
    return answer.result


class _ErrorAnswer(msgspec.Struct):
    message: str
    code: int


def error_of(http_status: int, content: bytes) -> RefusedError | ServerTroubleError:
    """What an answer other than 200 means."""
    try:
        answer = msgspec.json.decode(content, type=_ErrorAnswer, strict=False)
    except msgspec.MsgspecError:
        message = f"HTTP {http_status}: {content[:200].decode(errors='replace').strip()}"
        return RefusedError(message, UNKNOWN) if http_status == 400 else ServerTroubleError(message)
    return error_by_code(answer.code, answer.message)


def error_by_code(code: int, message: str) -> RefusedError | ServerTroubleError:
    if code in _WRONG_REQUEST:
        return RefusedError(message, code)
    # "Too many requests" and "no space" are said before anything is proposed; all else is unsure.
    return ServerTroubleError(message, not_applied=code == RESOURCE_EXHAUSTED)


class KeySpace:
    """The one place that knows where a cluster's keys live: `/shardwheel/<cluster>/`."""

    def __init__(self, cluster: str) -> None:
        if not cluster or "/" in cluster:
            raise UsageError(f"cluster: a name without '/', not {cluster!r}", field="cluster")
        self._root = f"/shardwheel/{cluster}/"

    def wire_key(self, key: str) -> bytes:
        return (self._root + key).encode()

    def wire_range(self, prefix: str) -> tuple[bytes, bytes]:
        """The first key with the prefix and the first one after them all. (UTF-8 has no byte 255.)"""
        first = self.wire_key(prefix)
        return first, first[:-1] + bytes([first[-1] + 1])

    def item(self, wire: WireKeyValue) -> KeyValue:
        key = wire.key.decode().removeprefix(self._root)
        return KeyValue(key, wire.value, wire.mod_revision, wire.create_revision, wire.lease)

    def event(self, wire: WireEvent) -> KeyEvent:
        item = self.item(wire.kv)
        return KeyEvent(item.key, None if wire.type == "DELETE" else item, item.mod_revision)

    def txn_request(self, compare: Sequence[Compare], then: Sequence[Put | Delete]) -> dict[str, Any]:
        return {
            "compare": [self._wire_compare(condition) for condition in compare],
            "success": [self._wire_operation(operation) for operation in then],
        }

    def _wire_compare(self, condition: Compare) -> dict[str, Any]:
        return {
            "key": self.wire_key(condition.key),
            "target": "MOD",
            "result": "EQUAL",
            "mod_revision": condition.mod_revision,
        }

    def _wire_operation(self, operation: Put | Delete) -> dict[str, Any]:
        key = self.wire_key(operation.key)
        if isinstance(operation, Delete):
            return {"request_delete_range": {"key": key}}
        return {"request_put": {"key": key, "value": operation.value, "lease": operation.lease}}

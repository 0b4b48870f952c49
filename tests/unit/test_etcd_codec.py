"""Where keys live, and which of etcd's errors is whose business."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from shardwheel.etcd_codec import KeySpace, RefusedError, ServerTroubleError, error_by_code

# First and last of each length in UTF-8, and the neighbours of "/".
KEYS = st.text(alphabet="\x00./0a\x7f\x80\u07ff\u0800\uffff\U00010000\U0010ffff", max_size=5)


@given(prefix=KEYS, rest=KEYS, other=KEYS)
@example(prefix="owners/", rest="", other="owners0")
@example(prefix="owners/", rest="\U0010ffff", other="owners.")
def test_a_range_holds_the_keys_with_its_prefix_and_no_others(prefix: str, rest: str, other: str) -> None:
    keys = KeySpace("c")
    first, after_last = keys.wire_range(prefix)
    for key in (prefix + rest, other):
        assert (first <= keys.wire_key(key) < after_last) == key.startswith(prefix)


def test_clusters_do_not_see_each_other() -> None:
    first, after_last = KeySpace("a").wire_range("")
    assert not first <= KeySpace("ab").wire_key("k") < after_last


def test_errors_are_sorted_by_who_must_act() -> None:
    for code in (3, 5, 6, 7, 9, 11, 12, 16):
        assert isinstance(error_by_code(code, "m"), RefusedError)
    for code in (1, 2, 4, 10, 13, 14, 15, 99):
        error = error_by_code(code, "m")
        assert isinstance(error, ServerTroubleError) and not error.not_applied
    full = error_by_code(8, "mvcc: database space exceeded")
    assert isinstance(full, ServerTroubleError) and full.not_applied


def test_which_refusals_a_new_token_may_cure() -> None:
    assert RefusedError("etcdserver: invalid auth token", 16).wants_new_token
    assert RefusedError("etcdserver: user name is empty", 3).wants_new_token
    assert not RefusedError("etcdserver: too many operations in txn request", 3).wants_new_token
    assert not RefusedError("etcdserver: permission denied", 7).wants_new_token

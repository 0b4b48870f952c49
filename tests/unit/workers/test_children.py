"""What an isolated attempt says becomes lines of its log, wherever it was cut."""

from __future__ import annotations

from trio.testing import trio_test

from shardwheel.execution import Claimed
from shardwheel.isolation import Limits
from shardwheel.workers.children import LINE_LIMIT, InChild
from tests.unit.workers.isolated_rig import Desk

CLAIMED = Claimed(bytes(16), bytes(16), 0, "t", "task", b'{"a": 1}', 0, 0, 1, 0, 0, b"token")


@trio_test
async def test_lines_are_put_together_and_the_last_one_needs_no_end() -> None:
    desk = Desk()
    child = InChild(CLAIMED, desk, ("hidden",), lambda: False)
    for piece in (b"fir", b"st\nsec", "ö".encode()[:1], "ö".encode()[1:] + b"nd\n\nhid", b"den", b" tail"):
        child.hear(piece)
    child.drop(0, 64)
    assert desk.said == [("info", "first"), ("info", "secönd"), ("info", "[secret] tail")]


@trio_test
async def test_an_endless_line_is_cut_and_what_was_dropped_is_said() -> None:
    desk = Desk()
    child = InChild(CLAIMED, desk, (), lambda: False)
    child.hear(b"x" * (2 * LINE_LIMIT + 5))
    child.drop(7, 4)
    assert [len(text) for _, text in desk.said[:-1]] == [LINE_LIMIT, LINE_LIMIT, 5]
    assert desk.said[-1] == ("warning", "… 7 bytes more of output were dropped (output_kb=4)")


@trio_test
async def test_no_half_of_a_secret_slips_out_where_a_line_is_cut() -> None:
    desk = Desk()
    child = InChild(CLAIMED, desk, ("hidden",), lambda: False)
    child.hear(b"x" * (LINE_LIMIT - 3) + b"hid")
    child.hear(b"den" + b"x" * LINE_LIMIT)
    child.drop(0, 4)
    assert "[secret]" in desk.text.replace("\n", "") and "hid" not in desk.text


@trio_test
async def test_nor_a_half_of_one_that_is_escaped() -> None:
    desk = Desk()
    secret = "hid\n\n\n\n\n\n\n\nden"
    child = InChild(CLAIMED, desk, (secret,), lambda: False)
    escaped = repr(secret)[1:-1].encode()
    child.hear(b"x" * (LINE_LIMIT - 4) + escaped[:-1])
    child.hear(escaped[-1:] + b"x" * LINE_LIMIT)
    child.drop(0, 4)
    assert "[secret]" in desk.text.replace("\n", "") and "hid" not in desk.text


@trio_test
async def test_an_attempt_that_was_given_up_says_nothing_more() -> None:
    desk = Desk()
    child = InChild(CLAIMED, desk, (), lambda: True)
    child.hear(b"late\n")
    child.drop(7, 4)
    assert desk.said == []


def test_the_order_holds_revealed_params_and_no_claim_token() -> None:
    revealed = InChild(CLAIMED, Desk(), ("hidden",), lambda: False).order(Limits(), {"a": "hidden"}, 1, 2)
    assert (revealed.claimed.params, revealed.claimed.claim_token) == (b'{"a":"hidden"}', b"")
    plain = InChild(CLAIMED, Desk(), (), lambda: False).order(Limits(), {"a": 1}, 1, 2)
    assert plain.claimed.params == CLAIMED.params

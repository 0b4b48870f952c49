"""One POST to somebody else's server: where it may go, that nothing leads it elsewhere, and that it ends."""

from __future__ import annotations

import pytest
import trio
from trio.testing import trio_test

from shardwheel.destinations import CallbackRules
from shardwheel.errors import UnavailableError, UsageError
from shardwheel.webhooks import Webhooks
from tests.unit.receiver import OK, Receiver

LAX = CallbackRules(("https", "http"), ("hooks.intra", "localhost"))
REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: http://localhost:%d/elsewhere\r\nContent-Length: 0\r\n\r\n"


class Names:
    """A resolver that says what it was told, and counts how often it was asked."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = list(addresses)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        return self._addresses


@trio_test
async def test_it_is_sent_to_the_address_that_was_checked_under_the_name_that_was_given() -> None:
    """No resolver but ours knows that name: had it been resolved again, nothing would have arrived."""
    names = Names("127.0.0.1")
    async with Receiver(OK).open() as receiver:
        url = f"http://hooks.intra:{receiver.port}/done?x=1"
        await Webhooks(LAX, resolver=names).post(url, b"{}", {"Content-Type": "application/json"})
    ((request, body),) = receiver.requests
    assert (request.method, request.target, body) == (b"POST", b"/done?x=1", b"{}")
    assert receiver.header("host") == f"hooks.intra:{receiver.port}"
    assert receiver.header("content-type") == "application/json"
    assert names.asked == ["hooks.intra"]


@trio_test
async def test_a_listed_name_is_resolved_as_this_machine_does() -> None:
    async with Receiver(OK).open() as receiver:
        await Webhooks(LAX).post(f"http://localhost:{receiver.port}/", b"", {})
    assert len(receiver.requests) == 1


@trio_test
async def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    async with Receiver(OK).open() as receiver:
        for address in (
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "169.254.169.254",
        ):
            webhooks = Webhooks(LAX, resolver=Names("8.8.8.8", address))
            with pytest.raises(UnavailableError, match="not public"):
                await webhooks.post(f"http://evil.example:{receiver.port}/", b"", {})
    assert receiver.requests == []


@trio_test
async def test_a_url_that_may_not_be_called_is_not_even_resolved() -> None:
    names = Names("127.0.0.1")
    for url in ("http://127.0.0.1/", "http://user@hooks.intra/", "ftp://hooks.intra/"):
        with pytest.raises(UsageError):
            await Webhooks(LAX, resolver=names).post(url, b"", {})
    assert names.asked == []


@trio_test
async def test_a_redirect_is_not_followed() -> None:
    async with Receiver(OK).open() as elsewhere, Receiver(REDIRECT % elsewhere.port).open() as receiver:
        with pytest.raises(UnavailableError, match="answered 302"):
            await Webhooks(LAX).post(f"http://localhost:{receiver.port}/", b"", {})
    assert (len(receiver.requests), elsewhere.requests) == (1, [])


@trio_test
async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Receiver(OK).open() as proxy, Receiver(OK).open() as receiver:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy.port}")
        await Webhooks(LAX).post(f"http://localhost:{receiver.port}/", b"", {})
    assert (len(receiver.requests), proxy.requests) == (1, [])


@trio_test
async def test_an_address_that_takes_no_connection_gives_way_to_the_next() -> None:
    async with Receiver(OK).open() as receiver:
        names = Names("127.0.0.2", "127.0.0.1")
        await Webhooks(LAX, resolver=names).post(f"http://hooks.intra:{receiver.port}/", b"", {})
    assert len(receiver.requests) == 1


@trio_test
async def test_a_receiver_that_never_answers_is_left() -> None:
    async with Receiver(None).open() as receiver:
        with pytest.raises(UnavailableError, match=r"no answer within 0\.2 s"):
            await Webhooks(LAX, limit_s=0.2).post(f"http://localhost:{receiver.port}/", b"", {})


@trio_test
async def test_an_endless_answer_is_not_read() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n" + b"x" * 1000
    async with Receiver(head).open() as receiver:
        with trio.fail_after(60):
            await Webhooks(LAX).post(f"http://localhost:{receiver.port}/", b"", {})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "answered 500"),
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", "answered 404"),
        (b"", "broke off"),
        (b"no http\r\n\r\n", "broke off"),
    ],
)
def test_anything_but_2xx_says_what_went_wrong(answer: bytes, words: str) -> None:
    async def post() -> None:
        async with Receiver(answer).open() as receiver:
            with pytest.raises(UnavailableError, match=words):
                await Webhooks(LAX).post(f"http://localhost:{receiver.port}/", b"", {})

    trio.run(post)


@trio_test
async def test_nobody_there_and_no_such_name_say_so() -> None:
    async with Receiver(OK).open() as receiver:
        port = receiver.port
    with pytest.raises(UnavailableError, match=r"no connection: .*127\.0\.0\.1"):
        await Webhooks(LAX, resolver=Names("127.0.0.1")).post(f"http://hooks.intra:{port}/", b"", {})
    with pytest.raises(UnavailableError, match="no address"):
        await Webhooks(LAX, resolver=Names()).post("http://hooks.intra/", b"", {})
    with pytest.raises(UnavailableError, match="can't be resolved"):
        await Webhooks(LAX).post("http://no-such-name.invalid/", b"", {})

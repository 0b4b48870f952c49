"""What httpx gave or raised, in the words of scripts. Pure."""

from __future__ import annotations

import httpx

from shardwheel.client.script import Lost, Reply, Send

# Nothing of the request has left this process.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def request_of(send: Send, base_url: str, headers: dict[str, str], timeout_s: float) -> httpx.Request:
    if send.body is not None:
        headers = headers | {"content-type": "application/json"}
    return httpx.Request(
        send.method,
        base_url + send.path,
        params=send.query or None,
        content=send.body,
        headers=headers,
        extensions={"timeout": httpx.Timeout(timeout_s).as_dict()},
    )


def reply_of(response: httpx.Response) -> Reply:
    headers = response.headers
    retry_after, content_type = headers.get("retry-after", ""), headers.get("content-type", "")
    return Reply(response.status_code, response.content, retry_after, content_type)


def lost(error: httpx.TransportError) -> Lost:
    return Lost(error, not isinstance(error, _UNSENT))

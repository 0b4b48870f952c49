"""What `shardctl doctor` finds out about the API: as a caller meets it, through whatever is in between."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import Any

import httpx
import jwt
import msgspec

from shardwheel.client.calls import sendable
from shardwheel.commands.findings import Finding, of_clock
from shardwheel.commands.reach import Reach
from shardwheel.errors import BadTokenError
from shardwheel.output import shown_time

PREFIX = "/api/v1"
LIMIT_S = 5.0


def of_api(reach: Reach | None, *, now_s: Callable[[], float] = time.time) -> list[Finding]:
    """`reach`: where it is, if anybody says so. That nobody does is nothing to mend where services run."""
    if reach is None:
        return [
            Finding("api", "not looked at: nobody names its address; say --api, or set SHARDWHEEL_API_URL")
        ]
    base_url = reach.url.rstrip("/").removesuffix(PREFIX) + PREFIX
    try:
        with httpx.Client(base_url=base_url, timeout=LIMIT_S, trust_env=False, verify=reach.trust) as http:
            ready = http.get("/readyz")
            findings = [_of_readiness(reach, ready, http)]
            if findings[0].remedy:
                return findings
            return [*findings, *_of_clock(ready, now_s()), _of_token(reach, http, now_s())]
    except (httpx.TransportError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        return [
            Finding("api", f"out of reach: {reach.url}, from {reach.where}: {error}", _mend(error, reach))
        ]


def _of_readiness(reach: Reach, ready: httpx.Response, http: httpx.Client) -> Finding:
    said = _json(ready)
    if ready.status_code == 503 and isinstance(said.get("error"), dict):
        problem = said["error"].get("message", "it does not say why")
        return Finding("api", f"{reach.url} can't serve: {problem}", "see the log of `shardctl api`")
    theirs = _version(http) if said.get("status") == "ready" else None
    if theirs is None:
        remedy = f"give the address that `shardctl api` says: it comes from {reach.where}"
        return Finding(
            "api", f"what answers at {reach.url} ({ready.status_code}) is not Shardwheel's API", remedy
        )
    ours = version("shardwheel")
    differs = "" if theirs == ours else f" (this shardctl is {ours})"
    tls = ", its certificate is good" if reach.url.startswith("https:") else ""
    return Finding("api", f"in reach at {reach.url}, version {theirs}{differs}{tls}")


def _of_clock(ready: httpx.Response, now_s: float) -> list[Finding]:
    """By the middle of the second in which it answered; a proxy may leave that out."""
    try:
        theirs_s = parsedate_to_datetime(ready.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return []
    return [of_clock("api clock", "the API's", theirs_s + 0.5 - now_s, "± 1 s")]


def _of_token(reach: Reach, http: httpx.Client, now_s: float) -> Finding:
    if not reach.token:
        return Finding("token", "none is set", "set SHARDWHEEL_TOKEN; `shardctl token create` makes one")
    try:
        headers = {"authorization": f"Bearer {sendable(reach.token)}"}
    except BadTokenError as refusal:
        return Finding("token", str(refusal), "set SHARDWHEEL_TOKEN to the line that it prints")
    answer = http.get("/jobs", params={"limit": 1}, headers=headers)
    if answer.status_code == 200:
        return Finding("token", f"good{_told(reach.token, now_s)}")
    error = _json(answer).get("error")
    problem = error.get("message", "") if isinstance(error, dict) else f"status {answer.status_code}"
    if answer.status_code == 401:
        remedy = "make another with the secret of that API: `shardctl token create`"
        return Finding("token", problem, remedy)
    return Finding("token", f"not tried: {problem}", "say `shardctl doctor` again in a moment")


def _told(token: str, now_s: float) -> str:
    """What it says of itself: the API has checked it."""
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
        left_h = (claims["exp"] - now_s) / 3600
        until = shown_time(int(claims["exp"]) * 1000)
        return f": {claims['role']} of tenant {claims['tenant']} until {until}, {left_h:.1f} h from now"
    except (jwt.InvalidTokenError, KeyError, TypeError):
        return ""


def _version(http: httpx.Client) -> str | None:
    info = _json(http.get("/openapi.json")).get("info")
    return info.get("version") if isinstance(info, dict) else None


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(response.content)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _mend(error: Exception, reach: Reach) -> str:
    text = str(error)
    if any(isinstance(one, ssl.SSLCertVerificationError) for one in _causes(error)):
        return (
            "its certificate is not believed: see its names, its end, and who signed it; an authority of "
            "your own belongs into https_ca"
        )
    if "WRONG_VERSION_NUMBER" in text or "wrong version number" in text:
        return f"it speaks no TLS: write http:// in {reach.where}"
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return f"write http://host:port or https://host in {reach.where}"
    tls = "; if it speaks TLS, write https://" if isinstance(error, httpx.RemoteProtocolError) else ""
    return f"is `shardctl api` up, and is the address right? See `shardctl dev status`{tls}"


def _causes(error: BaseException | None) -> list[BaseException]:
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found

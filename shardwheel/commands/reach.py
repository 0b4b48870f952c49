"""Where the API is, and what to show it: flags > `SHARDWHEEL_*` > `shardwheel.toml` > a `dev` that runs here.

A token is sent only where its own layer, or a weaker one, names the address: the one in a file never goes to
an address that somebody typed. `--data` and `--profile` are flags, so what they name wins over the
environment.
"""

from __future__ import annotations

import getpass
import os
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shardwheel.client.calls import is_address
from shardwheel.commands.context import found_stack
from shardwheel.commands.said import Said
from shardwheel.compose.stack import Stack
from shardwheel.errors import UsageError
from shardwheel.references import referred
from shardwheel.settings import (
    FILE_NAME,
    load_settings,
    read_environment,
    read_file,
    read_profile,
    settings_file,
)
from shardwheel.tls import trust_of

TENANT = "default"
TOKEN_TTL_S = 3_600


class Reach(NamedTuple):
    """`where`: in whose words. `trust`: whose certificates to believe there, for httpx."""

    url: str
    token: str
    where: str
    trust: ssl.SSLContext | bool = True


class Layer(NamedTuple):
    """What one place says of the API."""

    where: str
    url: str = ""
    token: str = ""


def find_api(said: Said) -> Reach:
    reach = look_for_api(said)
    if reach is None:
        raise UsageError(
            "the API's address is not known: start `shardctl dev`, say --api URL, set SHARDWHEEL_API_URL, or "
            f"write api_url to {FILE_NAME}",
            field="api",
        )
    if not is_address(reach.url):
        problem = f"{reach.url}, from {reach.where}, is no address"
        raise UsageError(f"api: {problem}; write http://host:port or https://host", field="api")
    return reach


def look_for_api(said: Said) -> Reach | None:
    """None: nobody names an address. A token may be missing where the API is not: then it says so."""
    token = ""
    for layer in _layers(said, os.environ):
        token = token or layer.token
        if layer.url:
            shown = referred(token, "token") if token else ""
            return Reach(layer.url, shown, layer.where, _trust(layer.url, said))
    return None


def _trust(url: str, said: Said) -> ssl.SSLContext | bool:
    if not url.startswith("https:"):
        return True
    settings = load_settings(environ=os.environ, file=settings_file(), profile=said.profile)
    return trust_of(settings.https_ca)


def _layers(said: Said, environ: Mapping[str, str]) -> Iterator[Layer]:
    """The strongest first."""
    yield Layer("--api", said.api or "", said.token or "")
    if said.data is not None:
        yield _of_stack(found_stack(said.data))
        return
    file = settings_file()
    if said.profile is not None:
        yield _of_profile(said.profile, file)
        return
    shell = read_environment(environ)
    yield Layer("the environment", shell.get("api_url", ""), shell.get("token", ""))
    # The environment's `dev` is stronger than all that the file says.
    filed = {} if file is None or shell.get("data") else read_file(file)
    profile = shell.get("profile") or filed.get("profile")
    if profile:
        yield _of_profile(profile, file)
        return
    if filed:
        yield Layer(FILE_NAME, filed.get("api_url", ""), filed.get("token", ""))
    yield _of_stack(found_stack())


def _of_profile(name: str, file: Path | None) -> Layer:
    values: Mapping[str, Any] = read_profile(file, name)
    if not values.get("api_url"):
        raise UsageError(f"profile: {name!r} has no api_url; write it to {FILE_NAME}", field="profile")
    return Layer(f"profile {name}", str(values["api_url"]), str(values.get("token", "")))


def url_of(stack: Stack) -> str:
    """Where its API is; empty without one."""
    return next((f"http://{one.address}" for one in stack.processes if one.role == "api"), "")


def _of_stack(stack: Stack | None) -> Layer:
    """Its address, and a token in the name of whoever sits here: the audit shall tell people apart."""
    if stack is None or not url_of(stack):
        return Layer("`shardctl dev`")
    settings = load_settings(stack=stack.settings)
    token = ""
    if settings.jwt_algorithm == "HS256" and settings.secret:
        # Who brings a token needs nothing that signs one.
        from shardwheel.tokens import tenant_token

        token = tenant_token(
            settings.secret,
            tenant=TENANT,
            role="admin",
            name=f"shardctl/{_user()}",
            expires_at_s=int(time.time()) + TOKEN_TTL_S,
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
        )
    return Layer(f"`shardctl dev` on {stack.data}", url_of(stack), token)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"

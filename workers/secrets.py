"""Secrets by reference: `{"$secret": "smtp.password"}` in params becomes the secret as the handler starts.

The reference is what is stored, sent and shown; the secret itself lives in the handler's params and nowhere
else of ours. Should it turn up in an error's message, a traceback, a log line or an output, it is blotted out
before these are kept. (A handler that stores it in a checkpoint has stored it.)

Whose secret: a tenant reaches its own only. Built in are two providers:

    environment   SECRET_acme__smtp_password     prefix, tenant, two underscores, name ('.' and '-' as '_')
    file          <secret_folder>/acme/smtp.password         as Kubernetes and Docker mount them

or name your own in the settings as `module:attribute`: any callable (tenant, name) → text or None. It is
called in a thread, and may wait.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from shardwheel.errors import UsageError

REFERENCE = "$secret"
# Bytes that every params with a reference hold: the others need no second look.
MARK = b'"$secret"'
BLOT = "[secret]"
# What is shorter would blot out half of a text and protects nothing.
SHORTEST_BLOTTED = 4
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
# Without two underscores in a row: where the tenant ends is then never in doubt.
_TENANT_IN_VARIABLE = re.compile(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)*")


class Provider(Protocol):
    """Where secrets come from. None: there is no such secret for this tenant."""

    def __call__(self, tenant: str, name: str, /) -> str | None: ...


class SecretError(Exception):
    """A reference that leads nowhere. Its message never holds a secret."""


class EnvironmentSecrets:
    def __init__(self, prefix: str = "SECRET_", environ: Mapping[str, str] = os.environ) -> None:
        self._prefix = prefix
        self._environ = environ

    def __call__(self, tenant: str, name: str, /) -> str | None:
        if not _TENANT_IN_VARIABLE.fullmatch(tenant):
            return None
        return self._environ.get(f"{self._prefix}{tenant}__{re.sub('[.-]', '_', name)}")


class FileSecrets:
    """One file a secret, read each time: a rotated secret is seen at the next run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, tenant: str, name: str, /) -> str | None:
        if not _NAME.fullmatch(tenant):
            return None
        try:
            return (self._folder / tenant / name).read_text(encoding="utf-8").removesuffix("\n")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise SecretError(
                f"the file of the secret {name!r} can't be read: {type(error).__name__}"
            ) from None


def provider_of(kind: str, *, prefix: str, folder: str) -> Provider:
    """The provider that the settings name."""
    if kind == "environment":
        return EnvironmentSecrets(prefix)
    if kind == "file":
        if not folder:
            raise UsageError(
                "secret_folder: not set, and secret_provider is 'file'; name the folder with the secrets",
                field="secret_folder",
            )
        return FileSecrets(Path(folder))
    return _imported(kind)


def _imported(path: str) -> Provider:
    module, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"secret_provider: {path!r} is neither 'environment', 'file' nor a module:attribute ({error})",
            field="secret_provider",
        ) from error
    return cast(Provider, found)


def resolve(params: Any, find: Callable[[str], str | None]) -> tuple[Any, tuple[str, ...]]:
    """Params with their references replaced, and the secrets that went in. `SecretError` names the place."""
    found: list[str] = []

    def replaced(value: Any, place: str) -> Any:
        if isinstance(value, list):
            return [replaced(one, f"{place}[{index}]") for index, one in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if REFERENCE not in value:
            return {key: replaced(one, f"{place}.{key}") for key, one in value.items()}
        found.append(_found(value, place, find))
        return found[-1]

    return replaced(params, "params"), tuple(found)


def _found(reference: dict[str, Any], place: str, find: Callable[[str], str | None]) -> str:
    name = reference[REFERENCE]
    if len(reference) > 1 or not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SecretError(f'{place}: a reference is {{"$secret": "name"}} and nothing else')
    secret = find(name)
    if secret is None:
        raise SecretError(f"{place}: there is no secret {name!r} for this tenant where this worker looks")
    return secret


def blotted(secrets: tuple[str, ...], text: str) -> str:
    """The text without the secrets, be they there as they are or escaped (`f"{params!r}"`, JSON)."""
    return _without({form for secret in secrets for form in _forms(secret)}, text) if secrets else text


def longest_blotted(secrets: tuple[str, ...]) -> int:
    """The length of the longest text that `blotted` looks for."""
    return max((len(form) for secret in secrets for form in _forms(secret)), default=0)


def blotted_json(secrets: tuple[str, ...], data: bytes) -> bytes:
    """JSON without the secrets, however they are escaped there."""
    if not secrets:
        return data
    forms = {form for secret in secrets for form in _forms(secret)}
    escaped = {again for form in forms for again in (form, *_in_json(form))}
    return _without(escaped, data.decode()).encode()


def _forms(secret: str) -> set[str]:
    """All that a text may hold in its place. In a longer text with both quotes `repr` escapes one of them."""
    if len(secret) < SHORTEST_BLOTTED:
        return set()
    quoted = secret + "\"'"
    in_python = {one[1:-4] for one in (repr(quoted), ascii(quoted))}
    return {secret, repr(secret)[1:-1], ascii(secret)[1:-1], *in_python, *_in_json(secret)}


def _in_json(text: str) -> set[str]:
    """With letters beyond ASCII as they are, and escaped."""
    return {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True)}


def _without(forms: set[str], text: str) -> str:
    """The longest first: one may be a part of another."""
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, BLOT)
    return text

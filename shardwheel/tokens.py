"""Tokens: how one is made (`shardctl token create`), and how one that came in is believed or not. Pure.

A JWT is believed when it is signed by a key of ours with the one algorithm that the settings name (never the
one that the token names), has not run out, and says who issued it and for whom. `kid` tells which key: so a
new one can be used while tokens of the former ones are still about.

    keys = secret_keys(["the new secret …", "the former one …"])      # HS256; or read_jwks(…)
    Verifier("HS256", "shardwheel", "shardwheel").caller_of(token, keys)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import jwt
import msgspec

from shardwheel.errors import BadTokenError, UsageError
from shardwheel.roles import Role, role_of

SHORTEST_SECRET = 32
LONGEST_TOKEN = 8_192
LONGEST_TENANT = 200
# Two machines' clocks may differ a little.
LEEWAY_S = 5
LAST_S = 253_402_300_799
_STORABLE = re.compile("[^\\0\\ud800-\\udfff]*")
REQUIRED = ["exp", "iss", "aud", "tenant", "role"]

Keys = Mapping[str, Any]

# A key set comes from elsewhere, and is read again each minute: whatever is wrong with it must not end the
# process. What looks like a key and is none (a point beside the curve) is a ValueError from beneath.
_NO_KEY_SET = (
    *(msgspec.DecodeError, RecursionError),
    *(KeyError, TypeError, AttributeError, ValueError, jwt.PyJWTError),
)

# The first that fits: the last one is what most of the others are too.
_REFUSALS: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
    (jwt.ExpiredSignatureError, "it has expired"),
    (jwt.ImmatureSignatureError, "it is not valid yet"),
    (jwt.InvalidSignatureError, "its signature is not of this cluster's key"),
    (jwt.InvalidIssuerError, "its iss is not this cluster's jwt_issuer"),
    (jwt.InvalidAudienceError, "its aud is not this cluster's jwt_audience"),
    (jwt.DecodeError, "it is no JSON Web Token that can be read"),
)


class Caller(NamedTuple):
    """Whom a token speaks for. `tasks`: the task types it may enqueue (None: any)."""

    tenant: str
    role: Role
    name: str = "token"
    tasks: frozenset[str] | None = None
    expires_at_s: float = 0.0


class UnknownKeyError(BadTokenError):
    """Signed by a key that we do not have (yet: a new one may have been published)."""


class Verifier(NamedTuple):
    """What the settings ask of every token."""

    algorithm: str
    issuer: str
    audience: str

    def caller_of(self, token: str, keys: Keys) -> Caller:
        if len(token) > LONGEST_TOKEN:
            raise BadTokenError(f"the token is longer than {LONGEST_TOKEN} characters")
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") != self.algorithm:
                raise BadTokenError(f"the token must be signed with {self.algorithm}")
            claims = jwt.decode(
                token,
                _key_of(header.get("kid"), keys),
                algorithms=[self.algorithm],
                issuer=self.issuer,
                audience=self.audience,
                leeway=LEEWAY_S,
                options={"require": REQUIRED},
            )
        except jwt.PyJWTError as error:
            raise BadTokenError(
                f"the token is refused: {_told(error)}; make one: shardctl token create"
            ) from error
        return _caller(claims)


def secret_keys(secrets: Sequence[str]) -> dict[str, Any]:
    """HS256: each secret under the name that its tokens carry; the first one signs."""
    for secret in secrets:
        if len(secret) < SHORTEST_SECRET:
            raise UsageError(
                f"secret: has {len(secret)} characters; give at least {SHORTEST_SECRET} random ones",
                field="secret",
            )
    return {key_name(secret): secret for secret in secrets}


def key_name(secret: str) -> str:
    """A secret's `kid`: says which it is, and nothing about it."""
    return blake2b(secret.encode(), digest_size=6, person=b"shardwheel-kid").hexdigest()


def read_jwks(document: bytes, algorithm: str) -> dict[str, Any]:
    """RS256, ES256: the keys of a JSON Web Key Set by `kid`. Those of another kind are left out."""
    try:
        listed = msgspec.json.decode(document)["keys"]
        keys = [jwt.PyJWK(one, algorithm=algorithm) for one in listed if _is_fit(one, algorithm)]
        return {key.key_id or "": key.key for key in keys}
    except _NO_KEY_SET as error:
        raise UsageError(f"jwks: is not a JSON Web Key Set: {error}", field="jwks") from error


def make_token(secret: str, claims: Mapping[str, Any]) -> str:
    """Sign these claims with HS256."""
    (kid,) = secret_keys([secret])
    return jwt.encode(dict(claims), secret, algorithm="HS256", headers={"kid": kid})


def tenant_token(
    secret: str,
    *,
    tenant: str,
    role: str,
    name: str,
    expires_at_s: int,
    issuer: str,
    audience: str,
    tasks: Sequence[str] = (),
) -> str:
    """A token as the API wants it."""
    if not 1 <= len(tenant) <= LONGEST_TENANT:
        raise UsageError(f"tenant: give 1 to {LONGEST_TENANT} characters", field="tenant")
    claims = {"tenant": tenant, "role": role_of(role).word, "sub": name, "exp": expires_at_s}
    claims |= {"iss": issuer, "aud": audience} | ({"tasks": list(tasks)} if tasks else {})
    return make_token(secret, claims)


def _told(error: jwt.PyJWTError) -> str:
    """Its own words are for whoever writes a library of tokens; what claim is missing they tell well."""
    if isinstance(error, jwt.MissingRequiredClaimError):
        return str(error)
    return next((words for kind, words in _REFUSALS if isinstance(error, kind)), str(error))


def _is_fit(key: Mapping[str, Any], algorithm: str) -> bool:
    wanted = {"RS256": "RSA", "ES256": "EC"}[algorithm]
    return (
        key.get("kty") == wanted and key.get("alg", algorithm) == algorithm and key.get("use", "sig") == "sig"
    )


def _key_of(kid: object, keys: Keys) -> Any:
    """Without a `kid`, the key that signs now: the first."""
    if kid is None and keys:
        return next(iter(keys.values()))
    if not isinstance(kid, str) or kid not in keys:
        raise UnknownKeyError("the token is signed by a key that is not known here")
    return keys[kid]


def _caller(claims: Mapping[str, Any]) -> Caller:
    tenant, name, tasks = claims["tenant"], claims.get("sub", "token"), claims.get("tasks")
    if not _is_name(tenant) or not tenant:
        raise BadTokenError("the token's tenant is not a name")
    if not _is_name(name):
        raise BadTokenError("the token's sub is not a name")
    if tasks is not None and not (isinstance(tasks, list) and all(isinstance(task, str) for task in tasks)):
        raise BadTokenError("the token's tasks are not a list of names")
    try:
        role = role_of(claims["role"])
    except UsageError as error:
        raise BadTokenError(f"the token's {error}") from error
    # Before the year 10000: JSON knows numbers that no clock does.
    expires_at_s = float(min(int(claims["exp"]), LAST_S))
    return Caller(tenant, role, name, None if tasks is None else frozenset(tasks), expires_at_s)


def _is_name(value: object) -> bool:
    """What PostgreSQL can store: JSON lets lone surrogates and NUL pass."""
    return isinstance(value, str) and len(value) <= LONGEST_TENANT and _STORABLE.fullmatch(value) is not None

"""Which tokens are believed: every known way to cheat, by name."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from shardwheel.errors import BadTokenError, UsageError
from shardwheel.roles import Role
from shardwheel.tokens import (
    LAST_S,
    LEEWAY_S,
    UnknownKeyError,
    Verifier,
    key_name,
    make_token,
    read_jwks,
    secret_keys,
)

SECRET, FORMER = "s" * 40, "f" * 40
HS = Verifier("HS256", "shardwheel", "shardwheel")
RS = HS._replace(algorithm="RS256")
KEYS = secret_keys([SECRET, FORMER])
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def claims(**other: Any) -> dict[str, Any]:
    known = {"tenant": "acme", "role": "producer", "iss": "shardwheel", "aud": "shardwheel", "sub": "deploy"}
    found = known | {"exp": int(time.time()) + 60} | other
    return {name: value for name, value in found.items() if value is not None}


def jwks(*keys: Any) -> bytes:
    listed = [jwk(key) | {"kid": f"k{number}"} for number, key in enumerate(keys)]
    return json.dumps({"keys": listed}).encode()


def jwk(key: Any) -> dict[str, Any]:
    kind: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    found: dict[str, Any] = kind.to_jwk(key.public_key(), as_dict=True)
    return found


def part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_a_token_of_ours_speaks_for_its_tenant() -> None:
    caller = HS.caller_of(make_token(SECRET, claims(tasks=["email.send"])), KEYS)
    assert (caller.tenant, caller.role, caller.name) == ("acme", Role.PRODUCER, "deploy")
    assert caller.tasks == frozenset({"email.send"})


def test_a_former_secret_is_still_believed_and_a_forgotten_one_is_not() -> None:
    token = make_token(FORMER, claims())
    assert HS.caller_of(token, KEYS).tenant == "acme"
    with pytest.raises(UnknownKeyError):
        HS.caller_of(token, secret_keys([SECRET]))


def test_without_a_kid_the_present_secret_decides() -> None:
    assert HS.caller_of(jwt.encode(claims(), SECRET, "HS256"), KEYS).tenant == "acme"
    with pytest.raises(BadTokenError):
        HS.caller_of(jwt.encode(claims(), FORMER, "HS256"), KEYS)


def test_alg_none() -> None:
    for alg in ("none", "None", "nOnE"):
        with pytest.raises(BadTokenError):
            HS.caller_of(f"{part({'alg': alg, 'typ': 'JWT'})}.{part(claims())}.", KEYS)


def test_rs_hs_confusion() -> None:
    """The public key, which everyone has, as the secret of an HMAC."""
    public = RSA_KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    signed = f"{part({'alg': 'HS256', 'kid': 'k0'})}.{part(claims())}"
    mac = hmac.new(public, signed.encode(), hashlib.sha256).digest()
    forged = f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    with pytest.raises(BadTokenError, match="RS256"):
        RS.caller_of(forged, read_jwks(jwks(RSA_KEY), "RS256"))


def test_another_algorithm_of_the_same_kind() -> None:
    with pytest.raises(BadTokenError, match="HS256"):
        HS.caller_of(jwt.encode(claims(), SECRET * 2, "HS512", headers={"kid": key_name(SECRET)}), KEYS)


def test_a_changed_token() -> None:
    head, _, mac = make_token(SECRET, claims()).split(".")
    with pytest.raises(BadTokenError):
        HS.caller_of(f"{head}.{part(claims(role='admin'))}.{mac}", KEYS)


@pytest.mark.parametrize("missing", ["exp", "iss", "aud", "tenant", "role"])
def test_a_missing_claim(missing: str) -> None:
    with pytest.raises(BadTokenError, match=missing):
        HS.caller_of(make_token(SECRET, claims(**{missing: None})), KEYS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"exp": int(time.time()) - LEEWAY_S - 1},
        {"exp": "soon"},
        {"nbf": int(time.time()) + 3600},
        {"aud": "another"},
        {"iss": "another"},
        {"role": "root"},
        {"role": 4},
        {"tenant": ""},
        {"tenant": ["acme"]},
        {"tenant": "a\0b"},
        {"tenant": "x" * 201},
        {"tasks": "email.send"},
        {"sub": "a\0b"},
        # JSON knows what no database takes.
        {"tenant": "\ud800"},
        {"sub": "\udfff"},
    ],
    ids=str,
)
def test_a_wrong_claim(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadTokenError):
        HS.caller_of(make_token(SECRET, claims(**wrong)), KEYS)


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (make_token(SECRET, claims(exp=1)), "it has expired"),
        (make_token(SECRET, claims(exp=LAST_S, nbf=LAST_S)), "it is not valid yet"),
        (make_token(SECRET, claims(exp=LAST_S))[:-4] + "AAAA", "its signature is not of this cluster's key"),
        (make_token(SECRET, claims(exp=LAST_S, iss="another")), "its iss is not this cluster's jwt_issuer"),
        (make_token(SECRET, claims(exp=LAST_S, aud="another")), "its aud is not this cluster's jwt_audience"),
        ("x", "it is no JSON Web Token that can be read"),
    ],
    ids=range(6),
)
def test_a_refusal_says_why_and_what_to_do(token: str, said: str) -> None:
    with pytest.raises(BadTokenError) as refused:
        HS.caller_of(token, KEYS)
    assert str(refused.value) == f"the token is refused: {said}; make one: shardctl token create"


def test_a_token_that_never_runs_out_does_within_what_clocks_know() -> None:
    assert HS.caller_of(make_token(SECRET, claims(exp=10**400)), KEYS).expires_at_s == LAST_S


@pytest.mark.parametrize("part_of", [0, 1])
def test_a_token_of_ten_thousand_brackets(part_of: int) -> None:
    parts = [part({"alg": "HS256", "kid": key_name(SECRET)}), part(claims()), "AAAA"]
    parts[part_of] = base64.urlsafe_b64encode(b"[" * 5_000).rstrip(b"=").decode()
    with pytest.raises(BadTokenError):
        HS.caller_of(".".join(parts), KEYS)


@pytest.mark.parametrize("token", ["", "x", "a.b", "a.b.c", "....", "e30.e30.", "\0", "ü.ü.ü", "x" * 9000])
def test_garbage(token: str) -> None:
    with pytest.raises(BadTokenError):
        HS.caller_of(token, KEYS)


@pytest.mark.parametrize("kid", ["unknown", "", "../../etc/passwd", "' OR 1=1"])
def test_an_unknown_kid(kid: str) -> None:
    with pytest.raises(UnknownKeyError):
        HS.caller_of(jwt.encode(claims(), SECRET, "HS256", headers={"kid": kid}), KEYS)


def test_keys_of_a_jwks_by_kid() -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    keys = read_jwks(jwks(RSA_KEY, other, ec.generate_private_key(ec.SECP256R1())), "RS256")
    assert set(keys) == {"k0", "k1"}
    token = jwt.encode(claims(), other, "RS256", headers={"kid": "k1"})
    assert RS.caller_of(token, keys).tenant == "acme"
    with pytest.raises(BadTokenError):
        RS.caller_of(jwt.encode(claims(), other, "RS256", headers={"kid": "k0"}), keys)


def test_es256_by_jwks() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    token = jwt.encode(claims(), key, "ES256", headers={"kid": "k0"})
    assert HS._replace(algorithm="ES256").caller_of(token, read_jwks(jwks(key), "ES256")).tenant == "acme"


BESIDE_THE_CURVE = {"kty": "EC", "crv": "P-256", "x": "AQ" * 21 + "A", "y": "AQ" * 21 + "A", "kid": "k0"}
NO_KEY_SETS = [
    *(b"", b"[]", b"{}", b'{"keys": 7}', b'{"keys": [7]}', b'{"keys": "\xff"}'),
    b'{"keys": ' + b"[" * 100_000,
    b'{"keys": [{"kty": "RSA", "kid": "k0", "n": "*", "e": "AQAB"}]}',
    b'{"keys": [{"kty": "RSA", "kid": "k0", "n": "AQ", "e": "AQ"}]}',
]


def test_a_key_that_is_none_is_refused() -> None:
    document = json.dumps({"keys": [BESIDE_THE_CURVE]}).encode()
    with pytest.raises(UsageError, match="jwks"):
        read_jwks(document, "ES256")
    listed = jwk(RSA_KEY) | {"kid": ["k0"]}
    with pytest.raises(UsageError, match="jwks"):
        read_jwks(json.dumps({"keys": [listed]}).encode(), "RS256")


@pytest.mark.parametrize("document", NO_KEY_SETS, ids=lambda document: repr(document[:40]))
def test_what_is_no_jwks_is_refused(document: bytes) -> None:
    with pytest.raises(UsageError, match="jwks"):
        read_jwks(document, "RS256")


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 32"):
        secret_keys(["too short"])

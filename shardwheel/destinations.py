"""Where a callback may go: a URL is checked when it is posted, an address when it is connected to.

A URL from outside that we call from inside is a way into the inside: a metadata service, a database, the
process's own door. So a name says nothing: whoever delivers resolves it, asks `is_public` of every address
there is, and connects to one that it asked about. An address in disguise counts as what it may hide: no form
of IPv6 that carries an IPv4 address (mapped, NAT64, 6to4, Teredo, …) is public here, though some are global.

Hosts that a site lists by hand (`callback_private_hosts`) are let through as they are.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from shardwheel.times import refuse

LONGEST_URL: Final = 2_000
_FIELD: Final = "callback_url"
_REMEDY: Final = "write it as in https://example.com/done"
# What two parsers could read in two ways is not let in: no spaces, no backslashes, nothing beyond ASCII.
_PLAIN: Final = re.compile(r"[!-\[\]-~]+", re.ASCII)
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")
# getaddrinfo reads 127.1, 0x7f000001 and 2130706433 as addresses too.
_ODD_ADDRESS: Final = re.compile(r"(.*\.)?(\d+|0x[0-9a-f]*)")

_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
# Special within it: Teredo and other protocols' own, documentation, 6to4.
_NOT_PUBLIC: Final = tuple(
    IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
# The interface identifiers of ISATAP end in an IPv4 address.
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)
_NOT_PUBLIC_4: Final = ("192.0.0.", "192.88.99.")


class CallbackRules(NamedTuple):
    """What a site allows: which schemes, and which hosts although they are private."""

    schemes: tuple[str, ...] = ("https",)
    private_hosts: tuple[str, ...] = ()


STRICT: Final = CallbackRules()


class Destination(NamedTuple):
    """A checked URL, in parts. `host` is a name or an address without brackets, in lower case."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"https": 443, "http": 80}[self.scheme]
        return host if self.port == usual else f"{host}:{self.port}"


def destination_of(url: str, rules: CallbackRules = STRICT) -> Destination:
    """Check a callback's URL as it is posted, and again when it is delivered: the rules may have changed."""
    if len(url) > LONGEST_URL:
        refuse(_FIELD, f"has {len(url)} characters", f"give at most {LONGEST_URL}")
    if not _PLAIN.fullmatch(url):
        refuse(_FIELD, "has a character that is not allowed in a URL", "percent-encode it")
    parts = _split(url)
    if parts.scheme not in rules.schemes:
        refuse(_FIELD, f"begins with {parts.scheme or 'no scheme'!r}", f"use {' or '.join(rules.schemes)}")
    if "@" in parts.netloc:
        refuse(_FIELD, "holds a user or a password", "leave them out; check the signature instead")
    if parts.fragment:
        refuse(_FIELD, "has a fragment, which no server sees", "leave it out")
    host = _host(parts)
    _check_host(host, rules)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Destination(parts.scheme, host, _port(parts), target)


def is_public(address: str) -> bool:
    """Whether an address, as getaddrinfo gives it, is one of the public internet and hides no other."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv4Address):
        return found.is_global and not found.is_multicast and not str(found).startswith(_NOT_PUBLIC_4)
    return _is_public_6(found)


def is_listed(host: str, rules: CallbackRules) -> bool:
    return host in {listed.lower() for listed in rules.private_hosts}


def _is_public_6(address: IPv6Address) -> bool:
    if address not in _GLOBAL_UNICAST or any(address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global and int(address) >> 32 & 0xFFFF_FFFF not in _ISATAP


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        refuse(_FIELD, f"can't be read ({error})", _REMEDY)


def _host(parts: SplitResult) -> str:
    if not parts.hostname:
        refuse(_FIELD, "names no host", _REMEDY)
    return parts.hostname.removesuffix(".")


def _port(parts: SplitResult) -> int:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port is None:
        return {"https": 443, "http": 80}[parts.scheme]
    if not 0 < port < 65_536:
        refuse(_FIELD, "has a port that is none", "give 1 to 65535")
    return port


def _check_host(host: str, rules: CallbackRules) -> None:
    if is_listed(host, rules):
        return
    try:
        public = is_public(host)
    except ValueError:
        if not _NAME.fullmatch(host) or _ODD_ADDRESS.fullmatch(host):
            refuse(_FIELD, f"{host!r:.80} is no host", "give a name, or an address in its usual spelling")
        public = host != "localhost" and not host.endswith(".localhost")
    if not public:
        refuse(_FIELD, f"{host} is not public", "use a public host, or let callback_private_hosts list it")

"""TLS by settings: whom a process trusts, and what it shows of itself. Files are read once, at the start.

Three doors want it. The API's is open to the world: a certificate and its key. etcd's is somebody else's, as
are the servers at `https://` addresses (the API to its callers, a JWKS, receivers of callbacks and alerts).
And the services' own doors (`/metrics`, `/healthz`, a shard's `/poke`) are for the cluster: there the same
certificate is shown by who answers and by who knocks, and belonging to the cluster means that its authority
has signed it. Names are not compared: shards come and go at addresses that no certificate knows beforehand.
"""

from __future__ import annotations

import ssl
from typing import NamedTuple

from shardwheel.errors import UsageError


class Tls(NamedTuple):
    """Files in PEM: whom to trust (empty: the system's own roots), and a certificate with its key."""

    ca: str = ""
    cert: str = ""
    key: str = ""


class DoorTls(NamedTuple):
    """How a service's door is served, and how it knocks at those of others. Neither: plain HTTP."""

    server: ssl.SSLContext | None = None
    client: ssl.SSLContext | None = None

    def url(self, address: str, path: str) -> str:
        return f"{'https' if self.client else 'http'}://{address}{path}"

    @property
    def verify(self) -> ssl.SSLContext:
        """For httpx. Without TLS it is never used, and reading the system's roots takes long."""
        return self.client or unused_context()


NO_FILES = Tls()
PLAIN_DOORS = DoorTls()


def unused_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def server_context(cert: str, key: str, field: str = "http_tls") -> ssl.SSLContext | None:
    """None when neither is named: then it is plain HTTP."""
    if not cert and not key:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _show(context, cert, key, field)
    return context


def client_context(tls: Tls, field: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca or None)
    except OSError as error:
        raise _unusable(f"{field}_ca", tls.ca, error, "name the authority's certificate, in PEM") from error
    if tls.cert:
        _show(context, tls.cert, tls.key or tls.cert, field)
    return context


def trust_of(ca: str) -> ssl.SSLContext | bool:
    """For httpx: whom to believe at the `https://` addresses of others. The authorities that this machine
    knows, and besides those in this file; without one, those that httpx knows."""
    if not ca:
        return True
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(ca)
    except OSError as error:
        raise _unusable("https_ca", ca, error, "name the authority's certificate, in PEM") from error
    return context


def door_tls(tls: Tls) -> DoorTls:
    """A door that shows its certificate and asks for the caller's. To have none is allowed, as for a look at
    `/healthz`: whoever serves is told by `getpeercert`."""
    server = server_context(tls.cert, tls.key, "door")
    if server is None:
        return PLAIN_DOORS
    client = client_context(tls, "door")
    client.check_hostname = False
    server.verify_mode = ssl.CERT_OPTIONAL
    server.load_verify_locations(tls.ca)
    return DoorTls(server, client)


def _show(context: ssl.SSLContext, cert: str, key: str, field: str) -> None:
    try:
        context.load_cert_chain(cert, key)
    except OSError as error:
        remedy = "name a certificate (with its chain) and its key, both in PEM"
        raise _unusable(f"{field}_cert", f"{cert} and {key}", error, remedy) from error


def _unusable(field: str, files: str, error: OSError, remedy: str) -> UsageError:
    # OpenSSL's own errors are OSErrors too, and do not say which file they mean.
    reason = error.strerror or str(error) or "no PEM"
    return UsageError(f"{field}: {files} can't be used ({reason}); {remedy}", field=field)

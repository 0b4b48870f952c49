"""TLS for the HTTP server: certificate and key from files, read once at the start."""

from __future__ import annotations

import ssl

from shardwheel.errors import UsageError


def server_context(cert: str, key: str) -> ssl.SSLContext | None:
    """None when neither is named: then it is plain HTTP."""
    if not cert and not key:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key)
    except OSError as error:
        # OpenSSL's own errors are OSErrors too, and do not say which file they mean.
        reason = error.strerror or str(error) or "no PEM"
        raise UsageError(
            f"http_tls_cert, http_tls_key: {cert} and {key} can't be used ({reason}); name a certificate "
            "(with its chain) and its key, both in PEM",
            field="http_tls_cert",
        ) from error
    return context

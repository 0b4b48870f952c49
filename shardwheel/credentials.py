"""Whether params hold a credential in plain text. Pure: a guess by names and by well-known forms.

Params are stored, listed, copied into dead letters and shown to whoever may look at jobs: no place for a
password. A reference, `{"$secret": "smtp"}`, is always fine. The guess is careful, not clever: a name counts
only as a whole (`password`, not `password_policy`), and only with a text beside it.
"""

from __future__ import annotations

import re
from typing import Any, Final

REFERENCE: Final = "$secret"

# Compared in lower case, without underscores, hyphens and spaces.
_NAMES: Final = frozenset(
    {"password", "passwd", "pwd", "passphrase", "secret", "clientsecret", "apikey", "apisecret", "secretkey"}
    | {"accesskey", "secretaccesskey", "privatekey", "accesstoken", "refreshtoken", "authtoken"}
    | {"bearertoken", "authorization", "dbpassword", "databasepassword"}
)
_FORMS: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|\bgh[pousr]_[0-9A-Za-z]{36}"
    r"|\bxox[abprs]-[0-9A-Za-z-]{10,}"
    r"|\beyJ[0-9A-Za-z_-]{8,}\.eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]+"
    r"|\b[a-z][a-z0-9+.-]{0,20}://[^/\s:@]{1,256}:[^/\s:@]{1,256}@"
)
_JOINTS: Final = str.maketrans("", "", "_- ")


def credential_in(value: Any, path: str = "params") -> str | None:
    """Where the first thing that looks like a credential stands, such as `params.smtp.password`."""
    pending = [(path, value)]
    while pending:
        where, part = pending.pop()
        if isinstance(part, str):
            if _FORMS.search(part):
                return where
        elif isinstance(part, dict):
            if set(part) == {REFERENCE}:
                continue
            for name, inner in part.items():
                if isinstance(inner, str) and inner and str(name).lower().translate(_JOINTS) in _NAMES:
                    return f"{where}.{name}"
                pending.append((f"{where}.{name}", inner))
        elif isinstance(part, list):
            pending.extend((f"{where}[{number}]", inner) for number, inner in enumerate(part))
    return None

"""Whether params hold a credential in plain text. Pure: a guess by names and by well-known forms.

Params are stored, listed, copied into dead letters and shown to whoever may look at jobs: no place for a
password. A reference, `{"$secret": "smtp"}`, is fine while what it holds is a name. The guess is careful, not
clever: a name counts by how it ends (`password`, `smtp_password`, not `password_policy`), and only with a
text beside it.

Whoever posts chooses what is searched, so it costs no more than its size, however odd: no expression looks at
a character again for each place where a match might begin, and a place is spelled out only once it is found.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

REFERENCE: Final = "$secret"

# Compared in lower case, without underscores, hyphens and spaces.
_ENDINGS: Final = (
    *("password", "passwd", "pwd", "passphrase", "secret", "apikey", "secretkey", "accesskey", "privatekey"),
    *("accesstoken", "refreshtoken", "authtoken", "bearertoken", "apitoken", "sessiontoken"),
)
# Within a longer name it is something else: a payment's, a budget's.
_WHOLE: Final = "authorization"
_FORMS: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|(?<![0-9A-Za-z_-])eyJ[0-9A-Za-z_-]{8,}\.eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]+"
    # One look for where a word begins, for all of them.
    r"|\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|AIza[0-9A-Za-z_-]{35}"
    r"|gh[pousr]_[0-9A-Za-z]{36}"
    r"|github_pat_\w{22}"
    r"|glpat-[0-9A-Za-z_-]{20}"
    r"|[rs]k_live_[0-9A-Za-z]{16}"
    r"|xox[abprs]-[0-9A-Za-z-]{10,}"
    r"|[a-z][a-z0-9+.-]{0,20}://[^/\s:@]{1,256}:[^/\s:@]{1,256}@)"
)
_JOINTS: Final = str.maketrans("", "", "_- ")
_WORTH_A_LOOK: Final = (str, dict, list)


# Where something stands: in what, and under which name or number there.
_Place: TypeAlias = "tuple[_Place | None, str | int]"


def credential_in(value: Any, path: str = "params") -> str | None:
    """Where the first thing that looks like a credential stands, such as `params.smtp.password`."""
    pending: list[tuple[_Place, Any]] = [((None, path), value)]
    while pending:
        where, part = pending.pop()
        if isinstance(part, str):
            if _FORMS.search(part):
                return _spelled(where)
        elif isinstance(part, dict):
            if set(part) == {REFERENCE} and isinstance(part[REFERENCE], str):
                if _FORMS.search(part[REFERENCE]):
                    return _spelled((where, REFERENCE))
                continue
            for name, inner in part.items():
                if isinstance(inner, str) and inner and _is_telling(str(name)):
                    return _spelled((where, str(name)))
                if isinstance(inner, _WORTH_A_LOOK):
                    pending.append(((where, str(name)), inner))
        elif isinstance(part, list):
            pending += [
                ((where, number), inner)
                for number, inner in enumerate(part)
                if isinstance(inner, _WORTH_A_LOOK)
            ]
    return None


def _is_telling(name: str) -> bool:
    bare = name.lower().translate(_JOINTS)
    return bare.endswith(_ENDINGS) or bare == _WHOLE


def _spelled(place: _Place) -> str:
    words: list[str] = []
    inside: _Place | None = place
    while inside is not None:
        inside, name = inside
        words.append(f"[{name}]" if isinstance(name, int) else f".{name}")
    return "".join(reversed(words)).removeprefix(".")

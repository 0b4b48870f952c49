"""What somebody who starts a stack wants to know first: where its API is, and with which token."""

from __future__ import annotations

import time
from collections.abc import Callable

from shardwheel.compose.dev import RunningStack
from shardwheel.compose.stack import write_token
from shardwheel.tokens import tenant_token

TOKEN_TTL_S = 30 * 86_400
TENANT = "default"


def welcome(stack: RunningStack, say: Callable[[str], None]) -> None:
    """Make a token, and say where it is: in a file, since what a terminal shows is copied and logged."""
    settings = stack.settings
    addresses = [row.address for row in stack.processes if row.role == "api"]
    if settings.jwt_algorithm != "HS256" or not addresses:
        return
    token = tenant_token(
        settings.secret,
        tenant=TENANT,
        role="admin",
        name="dev",
        expires_at_s=int(time.time()) + TOKEN_TTL_S,
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
    )
    path = write_token(stack.folder, token)
    say(f"API: http://{addresses[0]}/api/v1, signed by {stack.folder / 'secret'}")
    say(f"made a token (tenant {TENANT}, role admin, good for 30 days): {path}")
    say(f'try: curl -H "Authorization: Bearer $(cat {path})" http://{addresses[0]}/api/v1/jobs')

"""What a tenant may have, and how much of it is taken. Read now and then, never for each request."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from shardwheel.logs import get_logger
from shardwheel.store.link import Connection
from shardwheel.store.sql import sql


class Quota(msgspec.Struct, frozen=True):
    """Limits of one tenant; 0 is none. The names are those in `tenants.limits`, which may hold others too."""

    submissions_per_s: float = 0.0
    active_jobs: int = 0
    params_bytes: int = 0
    dag_tasks: int = 0


class Standing(NamedTuple):
    """`active`: counted only where it is limited."""

    quota: Quota
    active: int


def read_standing(conn: Connection, tenant_id: str, usual: Quota) -> Standing:
    """The tenant's own limits before the usual ones."""
    row = conn.execute(sql("tenant_limits"), {"tenant_id": tenant_id}).fetchone()
    quota = _merged(tenant_id, usual, {} if row is None else row[0])
    if not quota.active_jobs:
        return Standing(quota, 0)
    given = {"tenant_id": tenant_id, "most": quota.active_jobs + 1}
    ((active,),) = conn.execute(sql("count_active"), given)
    return Standing(quota, active)


def _merged(tenant_id: str, usual: Quota, own: object) -> Quota:
    if not isinstance(own, dict):
        return usual
    try:
        return msgspec.convert(msgspec.structs.asdict(usual) | own, Quota)
    except msgspec.ValidationError as error:
        # Its caller can't mend that; whoever wrote it reads the log.
        get_logger().error(
            "a tenant's limits can't be read, the usual ones hold", tenant=tenant_id, reason=str(error)
        )
        return usual

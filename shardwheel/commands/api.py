"""`shardctl api`: the HTTP API."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
import trio
import typer
from psycopg.types.json import set_json_loads

from shardwheel.api.app import make_app
from shardwheel.api.auth import Gatekeeper
from shardwheel.api.desk import open_desk, unknown_lag
from shardwheel.api.keyring import Keyring, read_keys
from shardwheel.api.lookout import Lookout
from shardwheel.api.server import Server, open_socket
from shardwheel.commands.api_lag import KafkaLag
from shardwheel.commands.api_steering import CoordinatorSteering
from shardwheel.commands.context import DataOption, current_settings, require
from shardwheel.commands.edges import doors_of, open_etcd
from shardwheel.http import address_of_socket
from shardwheel.logs import set_up_logs
from shardwheel.service import Service, quieten_collector
from shardwheel.settings import Settings
from shardwheel.store.tenant_limits import Quota
from shardwheel.store.tenant_pool import TenantPool
from shardwheel.tls import server_context
from shardwheel.tokens import Verifier

app = typer.Typer(add_completion=False)

POSTGRES_LINKS = 8


@app.command()
def api(
    http_port: Annotated[int | None, typer.Option(help="Port of the API (0: any free one).")] = None,
    data: DataOption = None,
) -> None:
    """Run the HTTP API until SIGTERM: then it finishes the requests that are under way.

    Any number of them may run beside each other: none has anything to itself.

    Examples:

        shardctl api --http-port 8080

        curl -H "Authorization: Bearer $(shardctl token create --tenant default --role viewer)" \
localhost:8080/api/v1/jobs
    """
    settings = current_settings(data, http_port=http_port)
    require(settings, "postgres_dsn", "etcd_endpoints")
    set_up_logs(settings.log_level, settings.log_format, role="api")
    trio.run(_run, settings)


async def _run(settings: Settings) -> None:
    # Half the time of the standard library's, for every row with params.
    set_json_loads(msgspec.json.decode)
    tls = server_context(settings.http_tls_cert, settings.http_tls_key)
    listener = open_socket(settings.http_host, settings.http_port)
    service = Service("api", address=address_of_socket(listener))
    pool = TenantPool(settings.postgres_dsn, name="api", size=POSTGRES_LINKS)
    keyring = Keyring(service, settings)
    verifier = Verifier(settings.jwt_algorithm, settings.jwt_issuer, settings.jwt_audience)
    gatekeeper = Gatekeeper(verifier, await read_keys(settings), now_s=time.time, want_keys=keyring.want)
    doors = doors_of(settings)
    async with open_etcd(settings) as leases:
        lookout = Lookout(service, leases, doors)
        desk = open_desk(
            pool,
            poke=lookout.poke,
            look=lambda: lookout.view,
            steering=CoordinatorSteering(lookout.errand),
            health=service.health,
            is_stopping=service.stopping.is_set,
            lag=KafkaLag(settings, lookout.errand) if settings.kafka_bootstrap else unknown_lag,
            callbacks=settings.callback_rules,
            usual_quota=Quota(
                settings.tenant_submissions_per_s,
                settings.tenant_active_jobs,
                settings.tenant_params_bytes,
                settings.tenant_dag_tasks,
            ),
            door_tls=doors,
        )
        lookout.add_to_service()
        keyring.keep(gatekeeper)
        Server(service, make_app(desk, gatekeeper), listener, tls).add_to_service()
        quieten_collector()
        try:
            await service.run()
        finally:
            await trio.to_thread.run_sync(pool.close)

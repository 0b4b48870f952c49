"""What each setting is, in words: docs/reference/settings.md is made from them and from `Settings`.

Keys that belong together share a line. Links are as that page needs them.
"""

from __future__ import annotations

from typing import Final

GROUPS: Final[dict[str, dict[str, str]]] = {
    "The cluster and its servers": {
        "cluster": "names the cluster: etcd's keys are under `/shardwheel/<cluster>/`",
        "zone": "where this process stands; a standby is planned in another zone",
        "postgres_dsn": "PostgreSQL 17 or newer, as a DSN with its own TLS settings",
        "etcd_endpoints": "a list, e.g. `https://etcd-1:2379,https://etcd-2:2379`",
        "etcd_ca etcd_cert etcd_key": "TLS: files in PEM",
        "etcd_user etcd_password": "etcd's own users",
        "kafka_bootstrap": "Kafka 4, e.g. `kafka-1:9092,kafka-2:9092`",
        "kafka_settings": "passed on to librdkafka, e.g. `security.protocol=SASL_SSL,sasl.mechanism=PLAIN`",
        "results_bootstrap results_settings": (
            "another Kafka cluster for the results; without it they go through the jobs'"
        ),
        "topic_partitions": "of each topic; fixed for a cluster's life",
    },
    "Clients": {
        "api_url token": (
            "where clients find the API, e.g. `https://shardwheel.example.org`, and the token that they "
            "show it"
        ),
        "profile": (
            "which of the file's `[profiles.NAME]` holds, each with settings in place of the file's own "
            "([cli.md](../cli.md#connection))"
        ),
    },
    "Doors": {
        "http_host http_port": (
            "the service's own door: `/metrics`, `/healthz` (port 0: any). On several machines the "
            "machine's own address, as the others reach it: shards tell each other where theirs is"
        ),
        "https_ca": (
            "a file in PEM: the authorities to believe, besides those that the machine knows, "
            "at `https://` addresses: of the API (for `shardctl`), of `jwks`, of receivers of "
            "callbacks and alerts"
        ),
        "http_tls_cert http_tls_key": (
            "`shardctl api` serves TLS with these files in PEM ([api.md](../api.md#tls))"
        ),
        "door_ca door_cert door_key": (
            "every service serves and calls doors with TLS ([api.md](../api.md#tls)): files in PEM, the "
            "same authority for the whole cluster"
        ),
    },
    "Tokens": {
        "secret": "signs tokens (HS256); at least 32 characters; `shardctl dev` makes one",
        "former_secrets": (
            "a list: tokens signed with these are still accepted, for a change of the secret without a gap"
        ),
        "jwt_algorithm": (
            "the one algorithm that tokens may use: HS256 (by `secret`), RS256 or ES256 (by `jwks`)"
        ),
        "jwt_issuer jwt_audience": "what a token's `iss` and `aud` must be",
        "jwks": (
            "a file or an `https://` address with the keys (JSON Web Key Set); read again every minute, "
            "and at once for an unknown `kid`"
        ),
    },
    "Limits of a tenant": {
        "tenant_submissions_per_s tenant_active_jobs tenant_params_bytes tenant_dag_tasks": (
            "what a tenant may ask of one API process; 0: no limit ([api.md](../api.md#limits))"
        ),
    },
    "Workers": {
        "handlers": "the module with the handlers",
        "isolated_user": (
            "whom isolated handlers run as ([isolation](../isolation.md)); needs a worker that runs as "
            "root. Empty: as the worker does"
        ),
        "isolated_children": "how many isolated attempts a worker runs at a time, each in two processes",
        "secret_provider": (
            'where `{"$secret": "name"}` in params is looked up: `environment`, `file`, or your own as '
            "`module:attribute`"
        ),
        "secret_prefix": (
            "of `environment`: the variable is `<prefix><tenant>__<name>`, with `.` and `-` of the name "
            "as `_`"
        ),
        "secret_folder": "of `file`: a secret is the file `<folder>/<tenant>/<name>`",
    },
    "Shards": {
        "lease_ttl_s": "a shard is believed dead after this",
        "isolation_limit_s": "cut off from etcd and PostgreSQL for so long, a shard stops firing",
        "leave_limit_s": (
            "at SIGTERM a shard waits so long for the others to take over what it owns; alone, not at all"
        ),
        "standbys": (
            "how many shards mirror each partition, ready to take over: 1, or 0, which halves the memory "
            "and lets a fail-over load first"
        ),
    },
    "Alerts": {
        "alert_webhooks": (
            "a list of URLs that get alerts as JSON ([alerts.md](../alerts.md)); they are yours, so "
            "private addresses are fine"
        ),
        "alert_pagerduty_key": (
            "PagerDuty's routing key: `env:NAME` and `file:PATH` name where it is kept; anything else is "
            "the key itself"
        ),
        "alert_pagerduty_url": "where events in the form of PagerDuty's Events API v2 go",
        "alert_scrape": (
            "more `host:port` doors whose `/metrics` the alerts read; those of shards and workers are known"
        ),
        "alert_oldest_due_s": (
            "an alert when something due so long ago is not yet fired; critical at ten times that"
        ),
        "alert_horizon_age_s": (
            "an alert when an open transaction has held the horizon back for so long; critical at ten "
            "times that"
        ),
        "alert_floor_age_s": "an alert when a partition's claim floor is so old; critical at ten times that",
    },
    "Webhooks": {
        "callback_secret": (
            "signs what is sent to a `callback_url` ([webhooks.md](../webhooks.md)); without one nothing "
            "is sent, and no job with a `callback_url` is taken; `shardctl dev` makes one"
        ),
        "callback_schemes": "which a `callback_url` may have: `https`, or `https,http`",
        "callback_private_hosts": (
            "names or addresses that a `callback_url` may lead to although they are private, e.g. "
            "`hooks.intra,10.0.0.7`"
        ),
        "callback_limit_h": "a callback is tried for so many hours, then given up",
    },
    "Retention": {
        "keep_succeeded_d": (
            "executions that succeeded or were skipped, with their attempts and logs, and delivered "
            "callbacks are kept so many days; at least 7: longer than Kafka keeps a fire"
        ),
        "keep_failed_d": (
            "the same of those that were given up, cancelled or completed by hand, and of callbacks given "
            "up or never sent; also spans of skipped and of expanded times; runs of DAGs that did not "
            "succeed, with all they ran; at least 7"
        ),
        "keep_dead_letters_d": "dead letters are kept so many days, open or not",
        "keep_audit_d": "the audit is kept so many days",
        "keep_deleted_jobs_d": "deleted jobs are kept so many days, longer while they have executions",
    },
    "This machine": {
        "data": "the data folder of `shardctl dev`",
        "cache": "where Kafka's jars are kept; empty: `~/.cache/shardwheel`",
        "log_level": "debug, info, warning, error",
        "log_format": "pretty or json; empty: by the terminal",
    },
}

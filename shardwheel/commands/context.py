"""Where a command's settings come from: flags, environment, file, and the `dev` stack that runs here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from shardwheel.commands.said import said_so_far
from shardwheel.compose.stack import Stack, running_stack
from shardwheel.errors import UsageError
from shardwheel.settings import (
    FILE_NAME,
    Settings,
    load_settings,
    read_environment,
    read_file,
    settings_file,
)

# Which servers a cluster is made of, and what is believed there. All else a process says for itself.
NAMES_A_CLUSTER = (
    *("cluster", "postgres_dsn", "topic_partitions", "secret", "former_secrets", "jwks"),
    *("etcd_endpoints", "etcd_ca", "etcd_cert", "etcd_key", "etcd_user", "etcd_password"),
    *("kafka_bootstrap", "kafka_settings", "results_bootstrap", "results_settings"),
    *("jwt_algorithm", "jwt_issuer", "jwt_audience"),
)

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="The data folder of the `shardctl dev` to talk to.",
        callback=lambda value: value or said_so_far().data,
    ),
]


def found_stack(data: Path | None = None) -> Stack | None:
    """The `dev` that runs here: in `data`, where the settings say, or in the default folder."""
    if data is not None:
        return _required_stack(data)
    named = _usual("data")
    return running_stack(Path(named) if named else None)


def current_settings(data: Path | None = None, **flags: Any) -> Settings:
    """The settings of this command. `--data` is a flag: which cluster that `dev` is wins over the
    environment. One that merely runs here fills the gaps, but not a profile's: that is another cluster."""
    profile = said_so_far().profile
    stack = None if data is None and _is_elsewhere(profile) else found_stack(data)
    shared = {} if stack is None else stack.settings
    named = {name: shared[name] for name in NAMES_A_CLUSTER if data is not None and name in shared}
    return load_settings(
        flags=named | {name: value for name, value in flags.items() if value is not None},
        environ=os.environ,
        file=settings_file(),
        stack=shared,
        profile=profile,
    )


def _is_elsewhere(profile: str | None) -> bool:
    """Whether a profile is chosen. What knows its `dev` by SHARDWHEEL_DATA, as its services do, is here."""
    return profile is not None or bool(_usual("profile") and not os.environ.get("SHARDWHEEL_DATA"))


def _usual(name: str) -> str:
    """What the environment says, or the file."""
    file = settings_file()
    found = read_environment(os.environ).get(name) or ({} if file is None else read_file(file)).get(name)
    return str(found or "")


def _required_stack(folder: Path) -> Stack:
    stack = running_stack(folder)
    if stack is None:
        raise UsageError(
            f"--data: no `shardctl dev` runs on {folder}; start one with: shardctl dev --data {folder}",
            field="data",
        )
    return stack


def require(settings: Settings, *names: str) -> None:
    """Refuse to start without what the command can't do without, naming the variable to set."""
    for name in names:
        if not getattr(settings, name):
            variable = f"SHARDWHEEL_{name.upper()}"
            raise UsageError(
                f"{name} is not set: start `shardctl dev`, set {variable}, or write it to {FILE_NAME}",
                field=name,
            )

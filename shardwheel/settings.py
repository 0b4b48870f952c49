"""Settings: one typed object, from flags > `SHARDWHEEL_*` > `shardwheel.toml` > a running `dev` > defaults.

Every key has the same name everywhere: `kafka_bootstrap` in the file, `SHARDWHEEL_KAFKA_BOOTSTRAP` in
the environment. An unknown key is refused by name, with the nearest known one: a misspelt setting must
not pass for a default. Nothing here connects to anything.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from shardwheel.destinations import CallbackRules
from shardwheel.errors import UsageError
from shardwheel.keeping import KAFKA_RETENTION_D, Keep
from shardwheel.misfits import meant

ENVIRONMENT_PREFIX = "SHARDWHEEL_"
FILE_NAME = "shardwheel.toml"
PROFILES = "profiles"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a process needs to know. Lists are comma-separated, mappings `key=value,…` in the environment."""

    cluster: str = "default"
    zone: str = ""

    postgres_dsn: str = ""
    etcd_endpoints: tuple[str, ...] = ()
    etcd_ca: str = ""
    etcd_cert: str = ""
    etcd_key: str = ""
    etcd_user: str = ""
    etcd_password: str = ""
    kafka_bootstrap: str = ""
    kafka_settings: dict[str, str] = {}
    results_bootstrap: str = ""
    results_settings: dict[str, str] = {}
    topic_partitions: int = 8

    api_url: str = ""
    token: str = ""
    http_host: str = "127.0.0.1"
    http_port: int = 0
    http_tls_cert: str = ""
    http_tls_key: str = ""
    door_ca: str = ""
    door_cert: str = ""
    door_key: str = ""
    https_ca: str = ""
    secret: str = ""
    former_secrets: tuple[str, ...] = ()
    jwt_algorithm: str = "HS256"
    jwt_issuer: str = "shardwheel"
    jwt_audience: str = "shardwheel"
    jwks: str = ""
    handlers: str = ""
    isolated_user: str = ""
    isolated_children: int = 32
    secret_provider: str = "environment"
    secret_prefix: str = "SECRET_"
    secret_folder: str = ""
    data: str = ""
    cache: str = ""
    profile: str = ""

    lease_ttl_s: int = 3
    isolation_limit_s: int = 60
    leave_limit_s: int = 20
    standbys: int = 1
    alert_webhooks: tuple[str, ...] = ()
    alert_pagerduty_key: str = ""
    alert_pagerduty_url: str = "https://events.pagerduty.com/v2/enqueue"
    alert_scrape: tuple[str, ...] = ()
    alert_oldest_due_s: int = 30
    alert_horizon_age_s: int = 60
    alert_floor_age_s: int = 300
    tenant_submissions_per_s: int = 0
    tenant_active_jobs: int = 0
    tenant_params_bytes: int = 0
    tenant_dag_tasks: int = 0
    log_level: str = "info"
    log_format: str = ""

    callback_secret: str = ""
    callback_schemes: tuple[str, ...] = ("https",)
    callback_private_hosts: tuple[str, ...] = ()
    callback_limit_h: int = 12

    keep_succeeded_d: int = 7
    keep_failed_d: int = 30
    keep_dead_letters_d: int = 14
    keep_audit_d: int = 365
    keep_deleted_jobs_d: int = 30

    @property
    def results_kafka(self) -> tuple[str, dict[str, str]]:
        """Where results live: another Kafka cluster if one is named, else the jobs' own."""
        if self.results_bootstrap:
            return self.results_bootstrap, self.results_settings
        return self.kafka_bootstrap, self.kafka_settings

    @property
    def callback_rules(self) -> CallbackRules:
        """Where callbacks may go, if anywhere."""
        return CallbackRules(
            self.callback_schemes, self.callback_private_hosts, has_secret=bool(self.callback_secret)
        )

    @property
    def keep(self) -> Keep:
        """How long what is over is kept."""
        days = (
            self.keep_succeeded_d,
            self.keep_failed_d,
            self.keep_dead_letters_d,
            self.keep_audit_d,
            self.keep_deleted_jobs_d,
        )
        return Keep(*(timedelta(days=count) for count in days))


RANGES: Final[dict[str, tuple[int, int]]] = {
    "topic_partitions": (1, 256),
    "lease_ttl_s": (2, 60),
    "isolation_limit_s": (1, 3600),
    "leave_limit_s": (0, 600),
    "standbys": (0, 1),
    "isolated_children": (1, 10_000),
    "callback_limit_h": (0, 168),
    # Longer than Kafka keeps a fire: a row that is gone too early would let a repeated fire run again.
    "keep_succeeded_d": (KAFKA_RETENTION_D + 2, 3650),
    "keep_failed_d": (KAFKA_RETENTION_D + 2, 3650),
    "keep_dead_letters_d": (1, 3650),
    "keep_audit_d": (1, 3650),
    "keep_deleted_jobs_d": (1, 3650),
    "tenant_submissions_per_s": (0, 1_000_000),
    "tenant_active_jobs": (0, 1_000_000_000),
    "tenant_params_bytes": (0, 65_536),
    "tenant_dag_tasks": (0, 10_000),
    "alert_oldest_due_s": (1, 86_400),
    "alert_horizon_age_s": (1, 86_400),
    "alert_floor_age_s": (1, 86_400),
}

_FIELDS = {field.name: field for field in msgspec.structs.fields(Settings)}


def load_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
    stack: Mapping[str, Any] | None = None,
    profile: str | None = None,
) -> Settings:
    """Merge the layers, later ones giving way to earlier ones. Flags that are None were not given.

    `profile`: the one that a flag names, which wins over the environment, as flags do.
    """
    filed = read_file(file) if file is not None else {}
    said = read_environment(environ or {})
    usual = said.get("profile") or filed.get("profile")
    layers: list[Mapping[str, Any]] = [stack or {}, filed]
    layers.append(read_profile(file, usual) if usual and profile is None else {})
    layers.append(said)
    layers.append({} if profile is None else read_profile(file, profile))
    layers.append({name: value for name, value in (flags or {}).items() if value is not None})
    merged: dict[str, Any] = {}
    for layer in layers:
        merged.update(layer)
    try:
        settings = msgspec.convert(merged, Settings)
    except msgspec.ValidationError as error:
        raise UsageError(f"settings: {error}", field=_field_of(error)) from error
    _check(settings)
    return settings


def settings_file() -> Path | None:
    """`shardwheel.toml` of the current folder, if there is one."""
    file = Path(FILE_NAME)
    return file if file.exists() else None


def read_profiles(file: Path | None) -> dict[str, dict[str, Any]]:
    """The clusters that a file knows: `[profiles.NAME]`, each with settings of its own."""
    profiles = {} if file is None else _toml(file).get(PROFILES, {})
    for name, values in profiles.items() if isinstance(profiles, dict) else [("", None)]:
        if not isinstance(values, dict):
            raise UsageError(f"{file}: {PROFILES}: write [{PROFILES}.NAME] with settings", field=PROFILES)
        for setting in values:
            _require_known(setting, f"{file}: {PROFILES}.{name}.{setting}")
    return profiles


def read_profile(file: Path | None, name: str) -> dict[str, Any]:
    profiles = read_profiles(file)
    if name not in profiles:
        known = ", ".join(sorted(profiles)) or "none"
        raise UsageError(f"profile: there is no {name!r} in {FILE_NAME}; it knows: {known}", field="profile")
    return profiles[name]


def read_file(path: Path) -> dict[str, Any]:
    values = _toml(path)
    values.pop(PROFILES, None)
    for name in values:
        _require_known(name, f"{path}: {name}")
    return values


def _toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file", field="config") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not valid TOML: {error}", field="config") from error


def read_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        _require_known(name, variable)
        values[name] = _parse(name, variable, text)
    return values


def _parse(name: str, variable: str, text: str) -> Any:
    default = _FIELDS[name].default
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"{variable}: {text!r} is not a whole number", field=name) from None
    if _FIELDS[name].default_factory is not msgspec.NODEFAULT:
        return _parse_mapping(name, variable, text)
    return text


def _parse_mapping(name: str, variable: str, text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = part.partition("=")
        if not separator:
            raise UsageError(f"{variable}: {part!r} is not of the form key=value", field=name)
        pairs[key.strip()] = value.strip()
    return pairs


def _require_known(name: str, where: str) -> None:
    if name in _FIELDS:
        return
    hint = meant(name, _FIELDS) or "see docs/reference/settings.md for the list"
    raise UsageError(f"{where}: there is no such setting; {hint}", field=name)


def _field_of(error: msgspec.ValidationError) -> str | None:
    """The field that msgspec names as `$.field` at the end of its message."""
    _, found, rest = str(error).partition("`$.")
    return rest.rstrip("`") if found else None


def _check(settings: Settings) -> None:
    for name, (least, most) in RANGES.items():
        value = getattr(settings, name)
        if not least <= value <= most:
            raise UsageError(f"{name}: {value} is out of range; give {least} to {most}", field=name)
    if settings.jwt_algorithm not in ("HS256", "RS256", "ES256"):
        raise UsageError(
            f"jwt_algorithm: {settings.jwt_algorithm!r} is not supported; give HS256, RS256 or ES256",
            field="jwt_algorithm",
        )
    if bool(settings.http_tls_cert) != bool(settings.http_tls_key):
        missing = "http_tls_key" if settings.http_tls_cert else "http_tls_cert"
        raise UsageError(f"{missing}: is missing; TLS wants a certificate and its key", field=missing)
    doors = {name: getattr(settings, name) for name in ("door_ca", "door_cert", "door_key")}
    if any(doors.values()) and not all(doors.values()):
        missing = next(name for name, file in doors.items() if not file)
        raise UsageError(
            f"{missing}: is missing; doors with TLS want an authority, a certificate, its key",
            field=missing,
        )
    if settings.log_format not in ("", "pretty", "json"):
        raise UsageError(
            f"log_format: {settings.log_format!r} is neither pretty nor json", field="log_format"
        )
    if not settings.callback_schemes or not set(settings.callback_schemes) <= {"https", "http"}:
        raise UsageError("callback_schemes: give https, or https,http", field="callback_schemes")
    if not settings.cluster or "/" in settings.cluster:
        raise UsageError("cluster: give a name without a slash", field="cluster")

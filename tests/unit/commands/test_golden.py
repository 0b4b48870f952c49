"""What verbs print: JSON as scripts rely on it, and tables at two widths, each against a file of golden/.

To write them anew after a change that is meant: `GOLDEN=1 pytest tests/unit/commands/test_golden.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.unit.commands.conftest import Shardctl
from tests.unit.commands.test_late import EVERY

GOLDEN = Path(__file__).with_name("golden")
JOB = "019a9e5c-7e1b-7c3a-8f21-0c9d3b7a5e10"
RUN = "019a9e5c-a000-0011-9b1d-5a3c2f6e7d80"
SHARD = "host-4711-9f86d081"
VERBS = [
    "job create email.send --cron '0 9 * * 1-5'",
    f"job get {JOB}",
    "job list",
    f"job update {JOB} --set timeout_s=5",
    f"job pause {JOB}",
    f"job resume {JOB}",
    f"job trigger {JOB}",
    f"job backfill {JOB} --from 2026-11-01T00:00:00Z --to 2026-11-02T00:00:00Z",
    f"job delete {JOB} --yes",
    f"job next {JOB}",
    f"job depend {JOB} --on {RUN}",
    f"job depend {JOB} --on {RUN} --remove",
    "job pause --all --yes",
    "job delete --filter task=email.send --dry-run",
    "execution list",
    f"execution get {RUN}",
    f"execution cancel {RUN} --yes",
    f"execution logs {RUN}",
    f"explain {JOB}",
    "task list",
    "task pause email.send",
    "task resume email.send",
    "task limit email.send --rate 100/min",
    f"dag get {JOB}",
    "dag list",
    f"dag pause {JOB}",
    f"dag resume {JOB}",
    f"dag trigger {JOB}",
    f"dag delete {JOB} --yes",
    f"dag runs {JOB}",
    f"dag run show {RUN}",
    f"dag force-complete {RUN} extract",
    f"dag skip {RUN} extract",
    f"dag rerun {RUN}",
    f"dag cancel {RUN} --yes",
    "dlq list",
    f"dlq show {RUN}",
    f"dlq redrive {RUN}",
    f"dlq discard {RUN} --yes",
    "audit list",
    "shard list",
    f"shard show {SHARD}",
    f"shard drain {SHARD}",
    f"shard undrain {SHARD}",
    "partition list",
    f"partition move 17 --to {SHARD}",
    "rebalance --dry-run",
    "rebalance status",
    "rebalance auto off",
    "job export",
    "alerts list",
    f"alerts silence {JOB}",
    f"explain {RUN}",
    "rebalance",
    "dlq redrive --all --dry-run",
    "dlq discard --all --dry-run",
    "dag create dag.yaml",
    f"dag update {JOB} dag.yaml",
    "job apply jobs.yaml --dry-run",
    "profile list",
]
# As YAML these print a file for `job apply` instead.
IMPORTS = [
    "import crontab old.crontab --dry-run",
    "import celery-beat beat.py --dry-run",
    "import apscheduler schedule.py --dry-run",
]
FILES = {
    "dag.yaml": "{name: etl, cron: 0 2 * * *, tasks: [{key: extract, task: etl.extract}]}",
    "jobs.yaml": "{jobs: [{name: digest, task: mail.digest, cron: 0 9 * * *}], dags: [{name: etl, tasks: "
    "[{key: extract, task: etl.extract}]}]}",
    "old.crontab": "CRON_TZ=Europe/Berlin\n0 9 * * 1-5 report --daily\n@reboot serve\n",
    "beat.py": "beat_schedule = {'a': {'task': 't', 'schedule': 30.0}, 'b': {'task': TASK, 'schedule': 1}}",
    "schedule.py": "s.add_job(poll, 'interval', minutes=5)\ns.add_job(poll, chosen())",
    "shardwheel.toml": '[profiles.staging]\napi_url = "http://staging"\ntoken = "env:T"\n',
}
# What has no answer of its own, or one that a golden file could not hold; and who looks at it.
ELSEWHERE = {
    "runs until it is stopped": "dev|shard|worker|results|api|alerts",
    "prints text": "dev logs",
    "is of this machine: test_reach, test_doctor_api": "dev status|dev restart|dev stop|doctor",
    "is of this moment: test_importing": "top",
    "is another one each time: tests/unit/test_tokens": "token create",
    "asks PostgreSQL itself: tests/integration": "migrate|rebase|replay",
    "the same: tests/integration/test_producers": "producer grant|producer list|producer revoke",
}
TABLES = [
    "job list",
    "profile list",
    "job pause --all --yes",
    f"execution logs {RUN}",
    f"shard show {SHARD}",
    "rebalance status",
    "execution list",
    "dlq list",
    "audit list",
    "shard list",
    "partition list",
    "task list",
    "dag list",
    "alerts list",
    f"dag runs {JOB}",
    f"dag run show {RUN}",
    f"execution get {RUN}",
    f"dlq show {RUN}",
    f"explain {JOB}",
    "rebalance --dry-run",
    f"job get {JOB}",
    f"job next {JOB}",
    f"job depend {JOB} --on {RUN}",
    f"job depend {JOB} --on {RUN} --remove",
]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)


def words(line: str) -> list[str]:
    import shlex

    return shlex.split(line)


def file_of(line: str) -> str:
    plain = line.replace(JOB, "JOB").replace(RUN, "RUN").replace(SHARD, "SHARD")
    return "-".join("".join(c if c.isalnum() else " " for c in plain).split())[:60]


def compare(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("line", VERBS)
def test_json_is_stable(shardctl: Shardctl, line: str) -> None:
    answer = shardctl(*words(line), "-o", "json")
    assert answer.code == 0, answer.errors
    compare(f"{file_of(line)}.json", answer.text)
    said_before = shardctl("-o", "yaml", *words(line))
    assert yaml.safe_load(said_before.text) == answer.value


@pytest.mark.parametrize("line", IMPORTS)
def test_what_an_import_finds_is_stable(shardctl: Shardctl, line: str) -> None:
    for output in ("json", "yaml"):
        answer = shardctl(*words(line), "-o", output)
        assert answer.code == 0, answer.errors
        compare(f"{file_of(line)}.{output}", answer.text)


def test_every_command_has_a_golden_file_or_says_why_not() -> None:
    named = {f"shardctl {path}" for paths in ELSEWHERE.values() for path in paths.split("|")}
    lines = [f"shardctl {line} " for line in VERBS + IMPORTS]
    paths = [path for path in EVERY if not path.startswith("shardctl bench ")]
    longest_first = sorted(paths, key=len, reverse=True)
    held = {next(path for path in longest_first if line.startswith(f"{path} ")) for line in lines}
    assert set(paths) - held == named


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("line", TABLES)
def test_tables_fit_the_terminal(shardctl: Shardctl, line: str, columns: int) -> None:
    answer = shardctl(*words(line), COLUMNS=str(columns))
    assert answer.code == 0, answer.errors
    assert all(len(row) <= columns for row in answer.text.splitlines())
    compare(f"{file_of(line)}-{columns}.txt", answer.text)

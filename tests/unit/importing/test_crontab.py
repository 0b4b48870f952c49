"""What becomes of a crontab, line by line."""

from __future__ import annotations

from shardwheel.importing.crontab import Reading, is_system_file, read_crontab
from shardwheel.importing.imported import Imported

NOW_MS = 1_794_900_000_000  # November 2026


def one(text: str, **reading: object) -> Imported:
    (found,) = read_crontab(text, Reading(**reading), NOW_MS)  # type: ignore[arg-type]
    return found


def test_a_line_becomes_a_job_as_cron_would_run_it() -> None:
    found = one("CRON_TZ=Europe/Berlin\nPATH='/usr/bin:/bin'\n# why\n\n0 9 * * 1-5  /opt/bin/report --daily")
    assert found.source == "line 5" and found.notes == () and found.refused is None
    assert found.job == {
        "task": "shell.run",
        "name": "report --daily",
        "params": {"command": "/opt/bin/report --daily", "env": {"PATH": "/usr/bin:/bin"}},
        "cron": "0 9 * * 1-5",
        "time_zone": "Europe/Berlin",
        "misfire": "skip",
        "max_retries": 0,
    }


def test_what_follows_a_percent_sign_is_standard_input() -> None:
    found = one(r"@daily mail -s 50\% bob%Hello,%bye 5\%", time_zone="UTC")
    assert found.job is not None and found.job["cron"] == "@daily"
    assert found.job["params"] == {"command": "mail -s 50% bob", "stdin": "Hello,\nbye 5%"}


def test_the_form_of_the_system_names_a_user() -> None:
    found = one("17 *\t* * *\troot\tcd / && run-parts /etc/cron.hourly", time_zone="UTC", is_system=True)
    assert found.job is not None
    assert found.job["params"] == {"command": "cd / && run-parts /etc/cron.hourly", "user": "root"}
    assert is_system_file("/etc/cron.d/backup") and not is_system_file("/var/spool/cron/ann")


def test_what_differs_is_said() -> None:
    found = one("MAILTO=ann@example.org\nRANDOM_DELAY=5\n0 0 13 * 5 friday")
    assert found.job is not None and found.job["jitter_s"] == 300
    zone, days = found.notes[0], found.notes[-1]
    assert "taken as UTC" in zone and "either is enough" in days
    assert any("MAILTO=ann@example.org" in note for note in found.notes)


def test_settings_hold_from_where_they_stand() -> None:
    first, second = read_crontab("0 1 * * * a\nCRON_TZ=Asia/Tokyo\n0 1 * * * a\n", Reading(), NOW_MS)
    assert first.job is not None and second.job is not None
    assert (first.job["time_zone"], second.job["time_zone"]) == ("UTC", "Asia/Tokyo")
    assert (first.job["name"], second.job["name"]) == ("a", "a (2)")


def test_tz_is_the_command_s_and_not_the_schedule_s() -> None:
    found = one("TZ=Asia/Tokyo\n0 1 * * * date", time_zone="Europe/Berlin")
    assert found.job is not None and found.job["time_zone"] == "Europe/Berlin"
    assert found.job["params"] == {"command": "date", "env": {"TZ": "Asia/Tokyo"}}


def test_what_can_not_be_is_said_with_its_reason() -> None:
    lines = {
        "@reboot serve": "no such moment",
        "0~59 3 * * * backup": "random time",
        "61 * * * * x": "minute '61' is not valid",
        "0 9 * *": "no command",
        "@daily": "no command",
        "0 0 30 2 * never": "never fires",
        "0 9 * * * curl -H 'password=hunter2hunter2' x": None,
    }
    found = read_crontab("\n".join(lines), Reading(time_zone="UTC"), NOW_MS)
    for entry, reason in zip(found, lines.values(), strict=True):
        if reason is not None:
            assert entry.job is None and reason in str(entry.refused)
    assert "time_zone" in str(one("CRON_TZ=Mars/Base\n@daily x").refused)

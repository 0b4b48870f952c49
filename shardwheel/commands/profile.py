"""`shardctl profile list`: the clusters that shardwheel.toml knows."""

from __future__ import annotations

from shardwheel.commands.said import noun
from shardwheel.commands.verbs import Terminal, verb
from shardwheel.settings import read_profiles, settings_file

app = noun("The clusters that shardwheel.toml knows; --profile NAME chooses one.")
COLUMNS = ["name", "api_url", "cluster", "has_token"]


@verb(app, "list")
def list_(at: Terminal) -> None:
    """List the profiles, the tables `profiles.NAME` of shardwheel.toml in this folder. Never their tokens.

    Examples:

        shardctl profile list

        shardctl --profile staging job list
    """
    found = read_profiles(settings_file()).items()
    rows = [
        {
            "name": name,
            "api_url": values.get("api_url"),
            "cluster": values.get("cluster"),
            "has_token": bool(values.get("token")),
        }
        for name, values in found
    ]
    at.rows(rows, COLUMNS)

"""Where the statements live: `sql("take_partitions")` is the text of store/take_partitions.sql.

Bytes, because that is what the driver takes from anyone: a statement made out of strings at run time has
no way in. In a statement with parameters a percent sign is written twice, in comments too.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

FEW = 16


@cache
def sql(name: str) -> bytes:
    """The statement of that name, read once a process."""
    return Path(__file__).with_name(f"{name}.sql").read_bytes()


def is_few(rows: int) -> bool:
    """Whether a statement over so many rows is worth preparing. The server's generic plan knows nothing of a
    batch's size and joins by nested loops: bad for hundreds of rows. For a few it is the best there is
    (`planning`)."""
    return rows <= FEW

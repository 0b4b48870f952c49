"""How long the feed's horizon has been held back by an open transaction. Pure: time is passed in.

The horizon X is a snapshot's xmin. While nothing is being written, xmin is xmax and there is nothing to wait
for, however long ago it moved. Else some transaction with that xid is open, and until it ends X stands still:
every read sees again what changed since, and every take-over replays from there. (PostgreSQL shows whose it
is, in pg_stat_activity, to those who may read that; how long it lasts anyone can see.)

    snapshot    at     age
    10:10:      0 s    0     nothing is open
    10:12:10    1 s    1     10 is open, since then at the earliest
    10:15:10    31 s   31    still
    14:15:14    32 s   0     10 has ended, 14 is open
"""

from __future__ import annotations


class HorizonAge:
    def __init__(self) -> None:
        self._xmin = ""
        self._since_s = 0.0

    def note(self, snapshot: str, now_s: float) -> float:
        """The age, as of this snapshot, in seconds."""
        xmin, xmax, _ = snapshot.split(":")
        if xmin == xmax or xmin != self._xmin:
            self._xmin, self._since_s = xmin, now_s
        return now_s - self._since_s

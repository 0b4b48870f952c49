"""Which loopback port a server gets.

Ports come from below the range that the kernel hands out for outgoing connections: otherwise, while a server
is down for a second, some client's connection may be given its port, and the server can't come back. (A
client that connects to a closed port of that range can even be connected to itself.)
It never reserves a port: between choosing and binding another process may take it; the server then says so.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

from shardwheel.errors import UsageError

LOOPBACK = "127.0.0.1"
LOWEST = 15000
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_handed_out: set[int] = set()


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a connection of the port's last owner in TIME_WAIT is no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def accepts(port: int) -> bool:
    """Does someone listen there? (A frozen server still does: the kernel accepts in its name.)"""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def _first_outgoing() -> int:
    try:
        return int(_RANGE_FILE.read_text().split()[0])
    except (OSError, ValueError):
        return 32768


def choose() -> int:
    """A free port that this process was not given before."""
    above = _first_outgoing()
    candidates = range(LOWEST, above) if above > LOWEST + 1000 else range(LOWEST, 65536)
    for port in random.sample(candidates, k=len(candidates)):
        if port not in _handed_out and is_free(port):
            _handed_out.add(port)
            return port
    raise UsageError(f"no free port on {LOOPBACK} between {candidates.start} and {candidates.stop}")

"""One row of one peer, in a process of its own with the peer's packages: told by JSON, answers by JSON.

python -m shardwheel.bench.peers.drive '{"peer": …, "row": …, "count": …, "dsn": …, "folder": …, "size": …}'
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from shardwheel.bench.peers.notes import NOTES
from shardwheel.bench.peers.peer import Place, peer_class, version_of
from shardwheel.bench.peers.rows import Run
from shardwheel.bench.peers.work import Size


def main(wish: dict[str, object]) -> dict[str, object]:
    name, row, count = str(wish["peer"]), str(wish["row"]), int(str(wish["count"]))
    peer = peer_class(name)
    about: dict[str, object] = {
        "version": version_of(peer),
        "settings": peer.settings,
        "durable": peer.durable,
        "cannot": peer.cannot,
    }
    if row == "about" or row in peer.cannot:
        return about
    folder = Path(str(wish["folder"]))
    notes = folder / "notes"
    os.environ[NOTES] = str(notes)
    size = Size(*wish["size"])  # type: ignore[misc]
    run = Run(name, Place(str(wish["dsn"]), folder), notes, size, lambda line: print(line, file=sys.stderr))
    return about | run.measure(row, count)


if __name__ == "__main__":
    # A run in a shell's background ignores the signal, and so would we.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(json.dumps(main(json.loads(sys.argv[1]))))

"""Kafka's classes, loaded and linked once and kept beside its jars: it then starts with a third of the work.

    python -m shardwheel.compose.warm      make the file unless it is there (what `make setup` does)

The JVM writes it ("AOT cache") while it ends, after Kafka ran for a moment and did a little of everything. It
is only haste: without it, or with one that does not fit the JVM, Kafka starts as ever. So a failure is said
and is no failure of the set-up.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Stubs lack it.

from shardwheel.compose import jars
from shardwheel.compose.kafka import KafkaServer, classes_path
from shardwheel.errors import ShardwheelError

LIMIT_S = 300.0


def ensure() -> bool:
    """Make the file unless it is there; true when there is one."""
    path = classes_path()
    if path.exists():
        return True
    print("Kafka's classes: preparing them, so that it starts sooner", file=sys.stderr, flush=True)
    try:
        jars.ensure()
        with tempfile.TemporaryDirectory(prefix=".warm-", dir=path.parent) as scratch:
            _record(Path(scratch), Path(scratch) / "classes.aot")
            (Path(scratch) / "classes.aot").replace(path)
    except (ShardwheelError, KafkaException, OSError) as error:
        print(f"Kafka's classes: {str(error).splitlines()[0]}; it will start slower", file=sys.stderr)
        return False
    return True


def _record(folder: Path, path: Path) -> None:
    KafkaServer(folder / "kafka").prepare()
    server = KafkaServer(folder / "kafka", record_classes=path)
    server.start(LIMIT_S)
    try:
        _exercise(server.bootstrap)
    finally:
        server.stop(LIMIT_S)


def _exercise(bootstrap: str) -> None:
    """A topic, a message, an idempotent producer: what every user of the server does first."""
    quiet: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(quiet)
    admin.create_topics([NewTopic("warm", 1)])["warm"].result(LIMIT_S)
    producer = Producer({**quiet, "enable.idempotence": True})
    producer.produce("warm", b"message")
    producer.flush(LIMIT_S)


if __name__ == "__main__":
    ensure()

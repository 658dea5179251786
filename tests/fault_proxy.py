"""A proxy between an HTTP client and a real server, that breaks chosen requests."""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

__all__ = ["Fault", "FaultProxy", "Kind", "fault_proxy"]

Kind = Literal["status", "reset", "lost", "slow", "cut", "garbage"]

# Headers of one connection, which the proxy makes anew for its own.
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "expect", "server", "date"}


@dataclass(frozen=True)
class Fault:
    """What happens to requests of a method and path.

    ``status``: an answer with that status. ``reset``: the connection is reset before the server has the request.
    ``lost``: it is reset after the server has answered. ``slow``: the request waits for some seconds.
    ``cut``: the answer ends in the middle. ``garbage``: the answer is 200, and bytes that mean nothing.
    """

    kind: Kind
    path: str = ""  # a regular expression, found anywhere in the path with its query
    method: str = ""  # a regular expression of the whole method; empty: any
    skip: int = 0  # requests that pass first
    count: int | None = None  # requests that break after these; None: all
    status: int = 500
    body: bytes = b"broken by the proxy"  # of ``status``
    seconds: float = 0.0  # of ``slow``

    def matches(self, method: str, path: str) -> bool:
        """Return whether a request is one that the fault is about."""
        return (
            re.search(self.path, path) is not None and re.fullmatch(self.method or ".*", method) is not None
        )


@dataclass
class FaultProxy:
    """A running proxy. Every request is in ``requests``, those that were broken in ``broken`` too.

    ``received`` is the number of bytes of all answers.
    """

    url: str
    requests: list[tuple[str, str]] = field(default_factory=list)  # method and path with query
    broken: list[tuple[str, str]] = field(default_factory=list)
    received: int = 0
    _faults: list[tuple[Fault, list[int]]] = field(default_factory=list)  # with the number of requests seen
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: Kind, path: str = "", **choices: object) -> None:
        """Break requests from now on; see ``Fault``. Of several faults for a request, the first one happens."""
        with self._lock:
            self._faults.append((Fault(kind, path, **choices), [0]))

    def clear(self) -> None:
        """Break nothing more, and forget the requests."""
        with self._lock:
            self._faults.clear()
            self.requests.clear()
            self.broken.clear()
            self.received = 0

    def fault_of(self, method: str, path: str) -> Fault | None:
        """Return what happens to a request, and count it."""
        with self._lock:
            self.requests.append((method, path))
            for fault, seen in self._faults:
                if not fault.matches(method, path):
                    continue
                number, seen[0] = seen[0], seen[0] + 1
                if number >= fault.skip and (fault.count is None or number < fault.skip + fault.count):
                    self.broken.append((method, path))
                    return fault
        return None


@contextmanager
def fault_proxy(target: str) -> Iterator[FaultProxy]:
    """Run a proxy in front of the server at an address; without faults it passes everything on."""
    host, port = urlsplit(target).hostname, urlsplit(target).port

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _pass_on(self) -> None:
            body = self._body()
            fault = proxy.fault_of(self.command, self.path)
            kind = None if fault is None else fault.kind
            if fault is not None and kind == "slow":
                time.sleep(fault.seconds)
            if kind == "reset":
                self._reset()
            elif fault is not None and kind == "status":
                self._answer(fault.status, {"Content-Type": "text/plain"}, fault.body)
            elif kind == "garbage":
                self._answer(200, {"Content-Type": "application/json"}, b"\x00\xff<garbage>\x89PAR1" * 9)
            else:
                status, headers, content = self._ask(body)
                proxy.received += len(content)
                if kind == "lost":
                    self._reset()
                else:
                    self._answer(status, headers, content, cut=kind == "cut")

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = do_HEAD = _pass_on  # noqa: N815

        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return body

        def _ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
            connection = HTTPConnection(str(host), port, timeout=60)
            try:
                headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
                connection.request(
                    self.command, self.path, body, headers | {"Content-Length": str(len(body))}
                )
                answer = connection.getresponse()
                content = answer.read()
                kept = {k: v for k, v in answer.getheaders() if k.lower() not in _HOP_BY_HOP}
                if self.command == "HEAD" and (length := answer.getheader("Content-Length")):
                    kept["Content-Length"] = length
                return answer.status, kept, content
            finally:
                connection.close()

        def _answer(self, status: int, headers: dict[str, str], content: bytes, *, cut: bool = False) -> None:
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(content))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content[: len(content) // 2] if cut else content)
            if cut:
                self.close_connection = True

        def _reset(self) -> None:
            # Without lingering, closing sends a reset instead of an orderly end.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def shutdown_request(self, request: socket.socket) -> None:
            self.close_request(request)  # an orderly shutdown first would make a reset an end

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that has given up is what the tests are about

    server = Server(("127.0.0.1", 0), Handler)
    proxy = FaultProxy(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)

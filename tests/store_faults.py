"""A door in front of a store: requests fail there, are done twice or late, and answers get lost or break off."""

from __future__ import annotations

import itertools
import random
import re
import threading
import time
from collections import Counter
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

FAULTS = ("503", "429", "answer-lost", "answer-breaks-off", "twice", "slow")


class FaultyDoor:
    """Passes requests on, some of them not as they should be.

    Attributes:
        endpoint: URL of the door.
        struck: How often each fault did.
    """

    def __init__(self, endpoint: str, seed: int, often: float) -> None:
        """Opens it. A share `often` of all requests that pass has a fault."""
        self.struck = Counter[str]()
        self._chance, self._often = random.Random(seed), often
        self._kinds = itertools.cycle(self._chance.sample(FAULTS, len(FAULTS)))
        self._to = urlsplit(endpoint)
        door = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                door._serve(self)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve

            def log_message(self, format: str, *args: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Takes no more requests."""
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        fault = self._fault_of(request)
        self.struck[fault] += 1
        if fault in ("503", "429"):
            _answer(request, int(fault), [], b"")
            return
        if fault == "slow":
            time.sleep(0.3)
        status, headers, content = self._ask(request, body)
        if fault == "twice":
            status, headers, content = self._ask(request, body)
        if fault == "answer-lost":
            request.close_connection = True
            return
        _answer(request, status, headers, content, fault == "answer-breaks-off")

    def _fault_of(self, request: BaseHTTPRequestHandler) -> str:
        return next(self._kinds) if self._chance.random() < self._often else ""

    def _ask(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        server = HTTPConnection(str(self._to.hostname), self._to.port, timeout=30)
        try:
            server.putrequest(request.command, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                server.putheader(name, value)
            server.endheaders(body or None)
            found = server.getresponse()
            content = found.read()
            return found.status, found.getheaders(), content
        finally:
            server.close()


class LateCopies(FaultyDoor):
    """Answers to each copy within the store that it is under way, as Azure may; to a test it never comes."""

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        if request.headers.get("x-ms-copy-source"):
            _answer(request, 202, [("x-ms-copy-id", "1"), ("x-ms-copy-status", "pending")], b"")
        else:
            super()._serve(request)


class LostEnds(FaultyDoor):
    """Does not answer the first request that ends an upload in parts, which the store has done."""

    def _fault_of(self, request: BaseHTTPRequestHandler) -> str:
        ends = "comp=blocklist" in request.path or (request.command == "POST" and "uploadId=" in request.path)
        return "answer-lost" if ends and not self.struck["answer-lost"] else ""


class BrokenAnswers(FaultyDoor):
    """Breaks off each first answer of a kind that has a content."""

    def _fault_of(self, request: BaseHTTPRequestHandler) -> str:
        kind = f"{request.command} {re.sub('=[^&]*', '', request.path)}"
        self.struck[kind] += 1
        return "answer-breaks-off" if self.struck[kind] == 1 else ""


def _answer(
    request: BaseHTTPRequestHandler,
    status: int,
    headers: list[tuple[str, str]],
    content: bytes,
    breaks_off: bool = False,
) -> None:
    request.send_response_only(status)
    length = next((value for name, value in headers if name.lower() == "content-length"), str(len(content)))
    for name, value in headers:
        if name.lower() not in ("content-length", "transfer-encoding", "connection"):
            request.send_header(name, value)
    request.send_header("Content-Length", length)
    request.end_headers()
    if breaks_off and content:
        request.close_connection = True
    request.wfile.write(content[: len(content) // 2] if breaks_off else content)

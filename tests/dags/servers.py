"""A mail server and a ResourceManager of a few lines, for Airflow to talk to."""

from __future__ import annotations

import json
import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_string
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

ServerT = TypeVar("ServerT", bound=socketserver.BaseServer)


class Mails:
    """A mail server.

    Attributes:
        sent: Of each mail, to whom and its text.
    """

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        mails = self

        class Session(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 here\r\n")
                to, text = "", []
                in_data = False
                for line in map(bytes.decode, self.rfile):
                    if in_data:
                        text.append(line)
                        if line != ".\r\n":
                            continue
                        in_data = False
                        mails.sent.append((to, _words("".join(text))))
                    elif found := re.match(r"rcpt to:<(.*)>", line, re.I):
                        to = found[1]
                    in_data = line.lower().startswith("data")
                    self.wfile.write(b"354 go\r\n" if in_data else b"250 ok\r\n")

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session)
        self.server.daemon_threads = True


class Yarn:
    """A ResourceManager's REST API, for applications that end after two looks.

    Attributes:
        given: Application -> what it was given: its tag, name and user.
        ends: Application -> how it ends: final status and diagnostics; one that is not in it goes on.
        killed: The applications that were killed, and by whom.
    """

    def __init__(self) -> None:
        self.given: dict[str, tuple[str, str, str]] = {}
        self.ends: dict[str, tuple[str, str]] = {}
        self.killed: list[tuple[str, str]] = []
        self._looks: dict[str, int] = {}
        yarn = self

        class Request(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                where = urlsplit(self.path)
                asked = {key: values[0] for key, values in parse_qs(where.query).items()}
                self._answer(yarn._get(where.path.removeprefix("/ws/v1/cluster/apps").strip("/"), asked))

            def do_PUT(self) -> None:
                where = urlsplit(self.path)
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                application = where.path.removeprefix("/ws/v1/cluster/apps/").removesuffix("/state")
                assert body == {"state": "KILLED"}
                yarn.killed.append((application, parse_qs(where.query)["user.name"][0]))
                self._answer(body)

            def _answer(self, found: dict[str, Any] | None) -> None:
                self.send_response(200 if found is not None else 404)
                self.end_headers()
                self.wfile.write(json.dumps(found or {}).encode())

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def _get(self, application: str, asked: dict[str, str]) -> dict[str, Any] | None:
        if not application:
            assert "RUNNING" in asked["states"]
            found = [
                {"id": a, "startedTime": 1, "applicationTags": f"sparktf,{tag}", "name": name, "user": user}
                for a, (tag, name, user) in self.given.items()
                if tag == asked["applicationTags"]
            ]
            return {"apps": {"app": found} if found else None}
        looks = self._looks[application] = self._looks.get(application, 0) + 1
        if application not in self.ends or looks <= 2:
            return {"app": {"state": "RUNNING", "finalStatus": "UNDEFINED"}}
        status, diagnostics = self.ends[application]
        return {"app": {"state": "FINISHED", "finalStatus": status, "diagnostics": diagnostics}}


def _words(mail: str) -> str:
    """Returns what people read of a mail."""
    parts = [part.get_payload(decode=True) for part in message_from_string(mail).walk()]
    return "".join(part.decode() for part in parts if isinstance(part, bytes))


@contextmanager
def serving(server: ServerT) -> Iterator[ServerT]:
    """Has a server answer while the block lasts; yields it."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

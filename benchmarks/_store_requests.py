"""A door in front of an S3 server that counts the requests which pass."""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from contextlib import suppress
from urllib.parse import urlsplit

_REQUEST = re.compile(rb"(?:^|\r\n\r\n|\n)(GET|PUT|POST|HEAD|DELETE) /\S* HTTP/1\.1\r\n")


class CountingDoor:
    """Forwards connections, and counts the requests in them by method.

    Attributes:
        endpoint: URL of the door.
        counts: Requests by method since they were taken last.
    """

    def __init__(self, endpoint: str) -> None:
        """Opens it."""
        self.counts = Counter[str]()
        self._to = urlsplit(endpoint)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def take(self) -> Counter[str]:
        """Returns the requests since the last call."""
        counts, self.counts = self.counts, Counter[str]()
        return counts

    def close(self) -> None:
        """Takes no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection((str(self._to.hostname), int(self._to.port or 80)))
            threading.Thread(target=self._pass_on, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(server, client, False), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        try:
            while chunk := source.recv(1 << 18):
                if counts:
                    for found in _REQUEST.finditer(chunk):
                        self.counts[found[1].decode()] += 1
                target.sendall(chunk)
        except OSError:
            pass
        finally:
            for end in (source, target):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

"""What goes over a mini cluster's network, for tests of what must not be there to read."""

from __future__ import annotations

import select
import socket
import struct
import threading
from pathlib import Path
from typing import Self

_EVERY_PROTOCOL = 0x0003
_OWN_BUFFER = 33  # SO_RCVBUFFORCE: root may have more than the machine's limit
_SOL_PACKET, _STATISTICS = 263, 6
_FRAME = 1 << 17  # a cable that divides nothing carries frames of 64 KiB and their headers
_SEAM = 64  # a needle across two frames of a search's pieces is not lost


class Capture:
    """All frames on a host's interfaces but the loopback, in a file, from `with` on; made in that host's network.

    On `edge` those are the ends of every host's cable, so what two hosts say to each other is there, too.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL))
        self._socket.setsockopt(socket.SOL_SOCKET, _OWN_BUFFER, 256 << 20)
        self.lost = 0
        """Frames that the kernel could not keep."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended.set()
        self._thread.join()
        _, self.lost = struct.unpack("II", self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 8))
        self._socket.close()

    @property
    def nbytes(self) -> int:
        return self._file.stat().st_size

    def holds(self, needle: bytes) -> bool:
        """Whether a frame has these bytes."""
        with self._file.open("rb") as file:
            last = b""
            while piece := file.read(1 << 24):
                if needle in last + piece:
                    return True
                last = piece[-_SEAM:]
        return False

    def _write(self) -> None:
        with self._file.open("wb") as file:
            while not self._ended.is_set():
                if not select.select([self._socket], [], [], 0.2)[0]:
                    continue
                frame, address = self._socket.recvfrom(_FRAME)
                if address[0] != "lo":
                    file.write(frame)

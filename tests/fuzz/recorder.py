"""Tells which case was at work when the whole process ended: a crash in native code leaves nothing behind to ask.

python recorder.py      shows the last thing that came over standard input, unless that ended with `END`
"""

from __future__ import annotations

import atexit
import subprocess
import sys
from typing import IO, TypeVar

Case = TypeVar("Case")

_SEPARATOR = b"\0"
_END = b"END"
_MAX_BYTES = 64 << 10


class Recorder:
    """Hands each case to a process of its own before it is tried."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def note(self, case: Case) -> Case:
        """Returns the case, having told that it is the next one."""
        self._write(repr(case).encode(errors="backslashreplace").replace(_SEPARATOR, b"")[:_MAX_BYTES])
        return case

    def _write(self, text: bytes) -> None:
        if self._process is None:
            self._process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, start_new_session=True)
            atexit.register(self._end)
        stream = self._process.stdin
        assert stream is not None
        stream.write(text + _SEPARATOR)
        stream.flush()

    def _end(self) -> None:
        assert self._process is not None
        self._write(_END)
        self._process.communicate()


RECORDER = Recorder()


def last_of(stream: IO[bytes]) -> bytes:
    """Returns the last thing of a stream."""
    last, rest = _END, b""
    while read := stream.read1(1 << 16):  # type: ignore[attr-defined]
        *whole, rest = (rest + read).split(_SEPARATOR)
        last = whole[-1] if whole else last
    return last


def main() -> None:
    """Waits for the end of standard input."""
    last = last_of(sys.stdin.buffer)
    if last != _END:
        print(f"the process of the tests ended in the midst of this case: {last.decode()}", file=sys.stderr)


if __name__ == "__main__":
    main()

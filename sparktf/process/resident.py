"""What a process keeps in memory and needs not: the container it runs in counts it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from pathlib import Path

_MADV_DONTNEED = 4
_SETTLED_S = 0.1
"""Longer than a library is on its way into the process."""


def forget_libraries() -> None:
    """Lets go of the pages of shared libraries that were only read: the system has them, and YARN counts them again.

    Those that are needed again come back by themselves. Other threads may run meanwhile.
    """
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    before = set(_read_only())
    time.sleep(_SETTLED_S)  # what is a library's now and was then, is no other's a moment later
    for begin, end in before.intersection(_read_only()):
        libc.madvise(begin, end - begin, _MADV_DONTNEED)


def give_back_freed() -> None:
    """Returns to the system what was freed, and the C library keeps for the next time."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's alone
    if trim is not None:
        trim(0)


def greatest_mib() -> int:
    """Returns the most that this process has had in memory, in MiB; `getrusage` counts what its parent had, too."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM:"))


def _read_only() -> Iterator[tuple[int, int]]:
    """Yields where libraries lie that nobody has written to: first byte and end."""
    begin = end = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if "-" in first:  # address, access, offset, device, inode, file
            is_library = rest[0] in ("r-xp", "r--p") and ".so" in rest[-1].rpartition("/")[2]
            begin, end = (int(place, 16) for place in first.split("-")) if is_library else (0, 0)
        elif first == "Anonymous:" and rest[0] == "0" and end:
            yield begin, end

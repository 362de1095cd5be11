"""Gives back memory that a process does not need but that its container counts."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from pathlib import Path

_MADV_DONTNEED = 4
_SETTLED_S = 0.1
"""Longer than the loading of a library takes."""


def forget_libraries() -> None:
    """Drops the clean pages of shared libraries: the page cache has them, and YARN counts them for each process.

    Pages that are needed again are loaded again. Other threads may run meanwhile.
    """
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    before = set(_read_only())
    time.sleep(_SETTLED_S)  # an address that held a library both times is not being reused for another mapping
    for begin, end in before.intersection(_read_only()):
        libc.madvise(begin, end - begin, _MADV_DONTNEED)


def give_back_freed() -> None:
    """Returns freed memory that the C library caches to the system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's alone
    if trim is not None:
        trim(0)


def greatest_mib() -> int:
    """Returns the peak memory of this process in MiB; `getrusage` would include its parent's."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM:"))


def _read_only() -> Iterator[tuple[int, int]]:
    """Yields the first and end address of unmodified library pages."""
    begin = end = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if "-" in first:  # address, access, offset, device, inode, file
            is_library = rest[0] in ("r-xp", "r--p") and ".so" in rest[-1].rpartition("/")[2]
            begin, end = (int(place, 16) for place in first.split("-")) if is_library else (0, 0)
        elif first == "Anonymous:" and rest[0] == "0" and end:
            yield begin, end

"""What a process gives back of its memory, while it goes on."""

from __future__ import annotations

import subprocess
import sys

FORGET = r"""
import ctypes
import re
import threading
import pyarrow as pa
import pyarrow.compute
import pyarrow.flight
from sparktf.process.resident import forget_libraries

UNUSED = re.compile(r"(\w+)-(\w+) r-[x-]p .*libarrow_flight[.]so.*\n.*\n.*\n.*\nRss: +(\d+) kB")
unused = lambda: UNUSED.findall(open("/proc/self/smaps").read())
total = lambda: pa.compute.sum(pa.array(range(1000))).as_py()
ended = threading.Event()
busy = threading.Thread(target=lambda: [total() for _ in iter(ended.is_set, True)])
busy.start()
for begin, end, _ in unused():
    ctypes.string_at(int(begin, 16), int(end, 16) - int(begin, 16))
before = sum(int(kib) for *_, kib in unused())
forget_libraries()
after = sum(int(kib) for *_, kib in unused())
ended.set()
busy.join()
print(before, after, total())
"""
"""Looks at a library that is read whole and that nothing uses: of one in use the system loads at once what it likes."""


def test_libraries_are_given_back_and_come_back_when_they_are_needed() -> None:
    done = subprocess.run([sys.executable, "-c", FORGET], check=True, capture_output=True, text=True)
    before, after, total = map(int, done.stdout.split())
    assert after < before / 10
    assert total == 499_500


def test_the_greatest_memory_is_that_of_this_process_alone() -> None:
    mib = "from sparktf.process.resident import greatest_mib; held = b'x' * {}; print(greatest_mib())"
    small, large = (
        int(subprocess.run([sys.executable, "-c", mib.format(n)], check=True, capture_output=True, text=True).stdout)
        for n in (0, 200 << 20)
    )
    assert 0 < small < 150, "whatever the tests' own process has"
    assert large >= 200

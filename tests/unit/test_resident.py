"""What a process gives back of its memory, while it goes on."""

from __future__ import annotations

import subprocess
import sys

FORGET = """
import threading
import pyarrow as pa
from sparktf.process.resident import forget_libraries

def files_kib():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssFile"))

total = lambda: pa.compute.sum(pa.array(range(1000))).as_py()
import pyarrow.compute
ended = threading.Event()
busy = threading.Thread(target=lambda: [total() for _ in iter(ended.is_set, True)])
busy.start()
before = files_kib()
forget_libraries()
after = files_kib()
ended.set()
busy.join()
print(before, after, total())
"""


def test_libraries_are_given_back_and_come_back_when_they_are_needed() -> None:
    done = subprocess.run([sys.executable, "-c", FORGET], check=True, capture_output=True, text=True)
    before, after, total = map(int, done.stdout.split())
    assert after < before * 0.7
    assert total == 499_500


def test_the_greatest_memory_is_that_of_this_process_alone() -> None:
    mib = "from sparktf.process.resident import greatest_mib; held = b'x' * {}; print(greatest_mib())"
    small, large = (
        int(subprocess.run([sys.executable, "-c", mib.format(n)], check=True, capture_output=True, text=True).stdout)
        for n in (0, 200 << 20)
    )
    assert 0 < small < 150, "whatever the tests' own process has"
    assert large >= 200

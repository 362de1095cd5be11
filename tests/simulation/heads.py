"""Seeds of one head that a few processes swap: on a disk or in a store of their own, each call of which may go wrong.

There are two kinds of heads: editions that are folders (`FolderHead`), and one object (`ObjectHead`).

What is true is read off the disk after each call: the editions that were ever the newest. Held against it is what each
process was told.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet
from simulation.disk import Disk, SimStorage, Way, at_once
from simulation.objects import SimObjects

from sparktf.errors import StorageError, StorageUnavailableError
from sparktf.storage.transactions.head import Edition, FolderHead, Head, HeadMovedError
from sparktf.storage.transactions.object_head import ObjectHead

FOLDERS, OBJECT = "folders", "object"
"""Kinds of heads."""

_FOLDER, _FILE = "/heads/h", "content"
_PROCESSES = (2, 5)
_SWAPS = 4
"""So often each process swaps, at most."""

FAULTS = ("fails", "answer-lost", "twice", "late", "frozen", "killed")
_CALLS = 4_000
"""A seed that makes more does not come to an end."""


@dataclass
class Played:
    """What came of a seed.

    Attributes:
        swapped: How many swaps have succeeded, as far as their makers know.
        struck: How often each kind of fault did.
    """

    swapped: int = 0
    violations: list[str] = field(default_factory=list)
    struck: dict[str, int] = field(default_factory=dict)


class Heads:
    """One seed."""

    def __init__(self, seed: int, kind: str = FOLDERS) -> None:
        self.played = Played()
        self._kind = kind
        self._chance = random.Random(f"{seed} head")
        self._disk = Disk(lambda: 0.0)
        self._on = [fault for fault in FAULTS if self._chance.random() < 0.5]
        self._often = self._chance.choice((0.02, 0.1, 0.3))
        self._late: list[Callable[[], object]] = []
        self._asleep: dict[int, int] = {}
        self._killed: set[int] = set()
        self._newest = Edition()
        self._was = {0: b""}
        self._main = getcurrent()
        if (
            self._chance.random() < 0.2 and kind == FOLDERS
        ):  # of a version that was cut off, or whose file somebody has deleted
            self._disk.make_dirs(f"{_FOLDER}/000001")

    def play(self) -> Played:
        """Plays it to its end."""
        self._look()
        processes = {
            number: greenlet(partial(self._live, number)) for number in range(self._chance.randint(*_PROCESSES))
        }
        for _ in range(_CALLS):
            processes = {number: process for number, process in processes.items() if not process.dead}
            if not processes:
                break
            number = self._chance.choice(list(processes))
            if self._asleep.get(number, 0) > 0:
                self._asleep[number] -= 1
                continue
            processes[number].switch()
            self._apply_late(0.1)
        else:
            self.played.violations.append("the processes swap on and on")
        self._apply_late(1.0)
        if (found := self._head(at_once).read()) != self._newest:
            self.played.violations.append(f"whoever reads finds {found}, and not {self._newest}")
        return self.played

    # ---- what a process does ----

    def _live(self, number: int) -> None:
        head = self._head(partial(self._call, number))
        for swap in range(self._chance.randint(1, _SWAPS)):
            content = f"{number}.{swap}".encode()
            try:
                read = head.read()
                self._told(number, read, content, head.swap(read, content))
            except HeadMovedError:
                if self._newest.content == content:
                    self._wrong(f"{number} is told that the head has moved, and {self._newest} is its own")
            except StorageError:
                pass  # it does not know

    def _head(self, way: Way) -> Head:
        if self._kind == OBJECT:
            return ObjectHead(SimObjects(self._disk, way), f"{_FOLDER}/{_FILE}")
        return FolderHead(SimStorage(self._disk, way), _FOLDER, _FILE, beside={"beat": b"0"})

    def _told(self, number: int, read: Edition, content: bytes, made: Edition) -> None:
        self.played.swapped += 1
        if made != Edition(read.number + 1, content):
            self._wrong(f"{number} has swapped {content!r} for {read}, and is told of {made}")
        if self._was.get(read.number) != read.content:
            self._wrong(f"{number} has swapped {read}, which was never there")
        if self._was.get(made.number) != content:
            self._wrong(f"{number} is told that {made} counts, and it was never the newest")

    # ---- what is true ----

    def _look(self) -> None:
        """Looks after each change which edition is the newest: only the next one may follow it, and none changes."""
        number, content = self._found()
        if number == self._newest.number and content != self._newest.content:
            self._wrong(f"{self._newest} has become {content!r}")
        elif number not in (self._newest.number, self._newest.number + 1):
            self._wrong(f"edition {number} follows {self._newest}")
        self._newest = Edition(number, content)
        self._was.setdefault(number, content)

    def _found(self) -> Edition:
        if self._kind == OBJECT:
            is_there = self._disk.find(f"{_FOLDER}/{_FILE}") is not None
            number, _, content = (
                self._disk.read(f"{_FOLDER}/{_FILE}").partition(b"\n") if is_there else (b"0", b"", b"")
            )
            return Edition(int(number), content)
        names = [entry.path.rpartition("/")[2] for entry in self._entries()]
        newest = max((int(name) for name in names if name.isdigit()), default=0)
        return Edition(newest, self._content(newest))

    def _entries(self) -> Any:
        return self._disk.list(_FOLDER) if self._disk.find(_FOLDER) is not None else ()

    def _content(self, number: int) -> bytes:
        path = f"{_FOLDER}/{number:06d}/{_FILE}"
        return self._disk.read(path) if number and self._disk.find(path) is not None else b""

    def _wrong(self, what: str) -> None:
        self.played.violations.append(what)

    # ---- what becomes of a call ----

    def _call(self, number: int, what: str, path: str, apply: Callable[[], Any]) -> Any:
        if number in self._killed:
            raise GreenletExit
        self._main.switch()
        fault = self._chance.choice(self._on) if self._on and self._chance.random() < self._often else ""
        if fault:
            self.played.struck[fault] = self.played.struck.get(fault, 0) + 1
        lost = StorageUnavailableError(f"cannot {what} {path}: connection reset")
        if fault == "fails":
            raise lost
        if fault == "late":
            self._late.append(apply)
            raise lost
        if fault in ("frozen", "killed") and self._chance.random() < 0.5:
            self._stop(number, fault)
        for _ in range(1 + (fault == "twice")):
            found = self._applied(apply)
        if fault in ("frozen", "killed"):
            self._stop(number, fault)
        if fault == "answer-lost":
            raise lost
        return found

    def _stop(self, number: int, fault: str) -> None:
        if fault == "killed":
            self._killed.add(number)
            raise GreenletExit
        self._asleep[number] = self._chance.randint(1, 60)
        self._main.switch()

    def _applied(self, apply: Callable[[], Any]) -> Any:
        try:
            return apply()
        finally:
            self._look()

    def _apply_late(self, share: float) -> None:
        """Lets the storage do what it was asked long ago, and whose answer nobody waits for."""
        for apply in [one for one in self._late if self._chance.random() < share]:
            self._late.remove(apply)
            with suppress(StorageError):
                self._applied(apply)


def play(seed: int, kind: str = FOLDERS) -> Played:
    """Plays a seed."""
    return Heads(seed, kind).play()

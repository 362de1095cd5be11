"""Disks that are full when a test says so."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Disk:
    """A small disk of memory in place of a folder, for one application alone: it goes when its last process does."""

    folder: Path
    nbytes: int

    def prefix(self) -> list[str]:
        """Returns what a command begins with that sees the disk."""
        rights = () if os.geteuid() == 0 else ("--user", "--map-root-user")
        mount = f'mount -t tmpfs -o size={self.nbytes} tmpfs "$0" && exec "$@"'
        return ["unshare", *rights, "--mount", "sh", "-c", mount, str(self.folder)]

    def fill(self, process: int) -> None:
        """Leaves no room on the disk that a process sees."""
        with suppress(OSError), self._filler(process).open("wb", buffering=0) as full:
            while full.write(bytes(4096)):
                pass

    def clear(self, process: int) -> None:
        """Gives back what `fill` took."""
        self._filler(process).unlink()

    def _filler(self, process: int) -> Path:
        return Path(f"/proc/{process}/root{self.folder}/filler")

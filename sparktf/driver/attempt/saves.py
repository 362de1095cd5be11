"""When a checkpoint is whole, and its position in the data: functions of the nodes' uploads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from sparktf.sequence import Cursor
from sparktf.topology import NodeId
from sparktf.wire.restore import Restore
from sparktf.wire.uploads import Uploaded


class Start(NamedTuple):
    """Where an attempt begins: by default, with a new run."""

    cursor: Cursor = Cursor()
    # Rows of the cursor's epoch that had been set aside before; `rows_replayed`: perhaps trained twice
    rows_aside: int = 0
    rows_replayed: int = 0
    splits: Mapping[int, int] = MappingProxyType({})  # Rows of the splits of that epoch that Spark had fed before
    restore: Restore | None = None  # The checkpoint that it goes on from
    outlives_losses: bool = False  # Its synchronous gang goes on without a member that is lost

    @property
    def rows(self) -> tuple[int, int, int]:
        """Rows of the cursor's epoch before it, and how many of them were set aside, and perhaps trained twice."""
        return self.cursor.rows, self.rows_aside, self.rows_replayed


@dataclass(frozen=True, slots=True)
class Save:
    """A checkpoint that is whole."""

    chief: Uploaded  # The chief's upload, with the files of all nodes
    cursor: Cursor  # Position of all nodes together
    rows_aside: int = 0  # Rows of the cursor's epoch that were set aside


def with_others(chief: Uploaded, others: Sequence[Uploaded | None]) -> Uploaded | None:
    """Returns the chief's upload together with the files of its checkpoint that others have written.

    Args:
        others: The upload of each node that may have written some; None while it has not.

    Returns:
        None while files are missing that may yet come; with an error if one never can.
    """
    if chief.error:
        return chief
    there = [upload for upload in others if upload is not None]
    if error := next((upload.error for upload in there if upload.error), ""):
        return chief.model_copy(update={"error": error})
    files = (*chief.files, *(file for upload in there for file in upload.files))
    missing = {*chief.others} - {file.name for file in files}
    if not missing:
        return chief.model_copy(update={"files": tuple(sorted(files, key=lambda file: file.name))})
    if len(there) < len(others):
        return None
    return chief.model_copy(update={"error": f"no node has uploaded {', '.join(sorted(missing))}"})


class Uploads:
    """The nodes' uploads for checkpoints that are not whole yet, by step."""

    def __init__(self) -> None:
        self._by_step: dict[int, dict[NodeId, Uploaded]] = {}

    def add(self, upload: Uploaded) -> None:
        self._by_step.setdefault(upload.step, {})[upload.node] = upload

    def collect(self, saved: Callable[[Mapping[NodeId, Uploaded]], Save | None]) -> list[Save]:
        """Returns, and forgets, the whole checkpoints, oldest first; `saved` returns None for one not whole yet."""
        found = {at: save for at, uploads in sorted(self._by_step.items()) if (save := saved(uploads)) is not None}
        for at in found:
            del self._by_step[at]
        return list(found.values())


def joined_save(start: Start, uploads: Sequence[Uploaded]) -> Save:
    """Returns the checkpoint of nodes that have all saved at the same step, the chief's upload first."""
    chief = uploads[0]
    goes_on = start.cursor.epoch == chief.epoch
    cursor = start.cursor if goes_on else Cursor(epoch=chief.epoch)
    aside = sum(upload.rows_aside for upload in uploads) + (start.rows_aside if goes_on else 0)
    return Save(chief, cursor.advance([interval for upload in uploads for interval in upload.done]), aside)


def is_given_up(since_s: float, now_s: float, limit_s: float) -> bool:
    """Returns whether a checkpoint that fails now ends the run; `since_s` is the first failure after the last success.

    Time alone ends nothing: one failure in a short trouble of the storage, hours before the next, does no harm.
    """
    return now_s - since_s >= limit_s

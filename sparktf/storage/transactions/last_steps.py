"""The steps that follow the result of a run: each may be done twice, and the remaining ones are recorded.

With its result a run is decided; its row of the history, its report, MLflow and `output.on_end` come after that. Before
the result is written, `last_steps.json` says which steps will follow it, and after each step which ones are left: none,
once all is done. A driver that is killed in between leaves a result with steps that are left. Whoever is told to run
the same id then does these before it repeats the verdict, as the run's owner, so that no two do them side by side.

A step is done again where a driver was killed between its last moment and the one call that records it: what it writes
is the same, and a command of `output.on_end` runs once more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress

from pydantic import ValidationError

from sparktf.errors import FencedOffError, StorageError, StorageNotFoundError
from sparktf.message import Message
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.transactions.fence import Fence
from sparktf.told import log_of

_log = log_of(__name__)


class StepsLeft(Message):
    """The record."""

    result: str  # SHA-256 of the result.json that the steps follow: the record says nothing of any other
    steps: tuple[str, ...]  # Those that are left, in their order


class LastSteps:
    """The steps that follow one run's result."""

    def __init__(self, storage: Storage, rundir: RunDirectory, fence: Fence) -> None:
        """Touches nothing. `fence`: through which the record is written."""
        self._storage = storage
        self._rundir = rundir
        self._fence = fence

    def announce(self, content: bytes, steps: Sequence[str]) -> None:
        """Says which steps will follow a result, before that is written. Of none nothing need be said.

        Raises:
            FencedOffError: the run belongs to another submission.
            StorageError: the storage failed.
        """
        if steps:
            record = StepsLeft(result=hashlib.sha256(content).hexdigest(), steps=tuple(steps))
            self._fence.put(self._rundir.last_steps, _content(record))

    def left(self) -> tuple[str, ...]:
        """Returns the steps that are left of the result which is there; none where no record speaks of it.

        Raises:
            StorageError: the storage failed.
        """
        record = self._record()
        if record is None or not record.steps:
            return ()
        try:
            is_its_result = self._storage.checksum(self._rundir.result) == record.result
        except StorageNotFoundError:
            return ()
        return record.steps if is_its_result else ()

    def do(self, step: Callable[[str], None], say: Callable[[str], None]) -> None:
        """Does what is left, and records each step as done in one call.

        What the storage does not record is left for the next submission of the run.

        Args:
            step: Does the step of a name. Raises nothing.
        """
        try:
            record = self._record()
            if record is None:
                return
            for name in self.left():
                record = record.model_copy(update={"steps": record.steps[1:]})
                # Written before, and only put in its place after: whoever is killed in between leaves the step.
                written = self._fence.prepare(self._rundir.last_steps, _content(record))
                step(name)
                self._fence.show(written, self._rundir.last_steps)
        except FencedOffError as error:
            say(f"what follows the result is left to another submission: {error}")
        except StorageError as error:
            say(f"what follows the result is done by whoever submits the same run id again: {error}")

    def _record(self) -> StepsLeft | None:
        return recorded_steps(self._storage, self._rundir)


def recorded_steps(storage: Storage, rundir: RunDirectory) -> StepsLeft | None:
    """Returns the record; None where there is none that this version has written. Raises `StorageError`."""
    with suppress(StorageNotFoundError):
        content = storage.read_bytes(rundir.last_steps)
        try:
            return StepsLeft.model_validate_json(content)
        except ValidationError:
            _log.warning("%s is not as this version writes it: it is passed over", rundir.last_steps)
    return None


def _content(record: StepsLeft) -> bytes:
    return json.dumps(record.model_dump(mode="json"), indent=1).encode()

"""Metrics of weights by content, and the best weights: what whoever evaluates makes of them."""

from __future__ import annotations

import math
import zlib

import numpy as np
import numpy.typing as npt

from sparktf.config.job import JobConfig
from sparktf.errors import StorageError
from sparktf.results.keep import Evaluation, KeepRule, Kept, keep_rule
from sparktf.storage.base import Storage
from sparktf.wire.restore import BestWeights

Counts = npt.NDArray[np.uint8]

WEIGHTS = "weights"
DOUBT = "doubt"
"""Beside the weights: how often each row is in them for executions that broke off."""

_LOSS = "loss"
_SEEN = "seen"


def loss_of(weights: Counts) -> float:
    """Returns a number that is not the same of other weights; of some it is none."""
    found = zlib.crc32(weights.tobytes()) % 1009
    return math.nan if found % 8 == 0 else float(found)


def values_of(weights: Counts, doubt: Counts) -> dict[str, float]:
    """Returns the metrics of weights: their loss, and how often a row is in them, but for what is in doubt."""
    return {_LOSS: loss_of(weights), _SEEN: float(weights.sum(dtype=int) - doubt.sum(dtype=int))}


def rule_of(config: JobConfig) -> KeepRule | None:
    """Returns by what the best weights are known, if they are kept."""
    return keep_rule(config.train, (_LOSS, _SEEN))


def read_counts(storage: Storage, path: str, names: tuple[str, ...], like: Counts) -> list[Counts]:
    """Returns what a checkpoint holds: weights, and what of them is in doubt.

    Args:
        names: Of its files; one may have a part of the weights.
        like: Of their shape.

    Raises:
        StorageError: a file was cut short.
    """
    found: list[Counts] = []
    for kind in (WEIGHTS, DOUBT):
        content = b"".join(storage.read_bytes(f"{path}/{name}") for name in sorted(names) if name.startswith(kind))
        if len(content) not in (0, like.size):
            raise StorageError(f"cannot restore {path}: a file is damaged")
        found.append(np.frombuffer(content, np.uint8).reshape(like.shape).copy() if content else np.zeros_like(like))
    return found


def kept(rule: KeepRule, best: Evaluation) -> Kept:
    """Returns what is told of the weights that are exported."""
    return Kept(epoch=best.epoch, step=best.step, metric=rule.metric, mode=rule.mode, value=rule.value(best))


class Best:
    """The best weights so far, of who trains; see `node.best.BestEpoch`."""

    def __init__(self, rule: KeepRule, restored: BestWeights | None) -> None:
        """Has those of an earlier attempt."""
        self._rule = rule
        self._restored = restored
        self._best = None if restored is None else restored.evaluation
        self._content: list[Counts] = []

    def offer(self, evaluation: Evaluation, content: list[Counts]) -> None:
        """Keeps a copy of weights, if they are the best."""
        if self._rule.is_better(evaluation, self._best):
            self._best, self._restored, self._content = evaluation, None, [counts.copy() for counts in content]

    def packed(self) -> list[npt.NDArray[np.uint8]]:
        """Returns what `take` takes over."""
        best = b"" if self._best is None else self._best.model_dump_json().encode()
        return [np.frombuffer(best, np.uint8), *self._content]

    def take(self, packed: list[npt.NDArray[np.uint8]]) -> None:
        """Takes over the best weights of another member, unless they are those that the attempt began with."""
        best, *content = packed
        self._best = Evaluation.model_validate_json(best.tobytes()) if best.size else None
        if content:
            self._restored, self._content = None, content

    def restore(self, storage: Storage, like: Counts) -> tuple[Kept, list[Counts]] | None:
        """Returns the best weights, and which they are; None where no evaluation gave a number."""
        if self._best is None:
            return None
        if (old := self._restored) is not None:
            self._content = read_counts(storage, old.path, old.files, like)
        return kept(self._rule, self._best), self._content


def as_files(content: list[Counts]) -> dict[str, bytes]:
    """Returns the files of weights; those of lockstep have nothing in doubt."""
    return dict(zip((WEIGHTS, DOUBT), (counts.tobytes() for counts in content), strict=False))

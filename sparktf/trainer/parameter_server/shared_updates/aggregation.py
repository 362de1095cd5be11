"""The coordinator's side of aggregated updates: it answers the workers about rounds, and makes the updates."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tensorflow.python.ops import script_ops

from sparktf.feed.arrays.columns import Array
from sparktf.topology import NodeId
from sparktf.trainer.parameter_server.shared_updates.aggregated_closure import BEGIN, ENTER, OUTCOME
from sparktf.trainer.parameter_server.shared_updates.rounds import Phase, Rounds, Who


class Aggregation:
    """Answers the PyFuncs of `aggregated_closure`, and makes the updates in a thread; thread-safe."""

    def __init__(
        self, rounds: Rounds, update: Callable[[Any], Any], throw_away: Callable[[], Any], sending: threading.Lock
    ) -> None:
        """Makes no update before `open`.

        Args:
            update: Makes an update of a round's gradients; takes `Rounds.sizes` as int64 [3].
            throw_away: Drops a round's gradients.
            sending: Held while the cluster definition is sent: TensorFlow refuses functions meanwhile.
        """
        self._rounds = rounds
        self._update = update
        self._throw_away = throw_away
        self._sending = sending
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        # TensorFlow holds them only by weak references.
        self._functions = {BEGIN: self._begin, ENTER: self._enter, OUTCOME: self._outcome}

    def start(self) -> None:
        """Registers the PyFuncs with TensorFlow, and begins to make updates."""
        script_ops._py_funcs._funcs.update(self._functions)
        threading.Thread(target=self._run, name="updates", daemon=True).start()

    # ---- the loop's side ----

    @property
    def steps(self) -> int:
        """Number of updates made.

        Raises:
            Exception: the error that kept one from being made.
        """
        with self._changed:
            if self._error is not None:
                raise self._error
            return self._rounds.steps

    @property
    def dropped(self) -> int:
        """Number of gradients that went into no update."""
        with self._changed:
            return self._rounds.dropped

    def begin_epoch(self) -> None:
        """See `Rounds.begin_epoch`."""
        with self._changed:
            self._rounds.begin_epoch()

    def open(self, updates: int | None) -> None:
        """See `Rounds.open`."""
        with self._changed:
            self._rounds.open(updates)

    def close(self) -> None:
        """Begins no further update; waits for the one in progress."""
        with self._changed:
            self._rounds.close()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._error or self._rounds.phase is Phase.CLOSED)

    def succeed(self, incarnations: Mapping[NodeId, int]) -> None:
        """Accepts nothing more from incarnations of workers before these."""
        with self._changed:
            for node, incarnation in incarnations.items():
                self._rounds.succeed(node.index, incarnation)
            self._changed.notify_all()

    # ---- the workers' side ----

    def _begin(self, who: Array) -> Any:
        has_rows = bool(who[2])
        with self._changed:
            number = self._rounds.begin(_who(who), has_rows=has_rows)
            self._changed.notify_all()
        return np.int64(number)

    def _enter(self, who: Array, number: Any, rows: Any) -> Any:
        with self._changed:
            return np.bool_(self._rounds.enter(_who(who), int(number), int(rows)))

    def _outcome(self, who: Array, number: Any, is_there: Any) -> Array:
        with self._changed:
            if is_there:
                self._rounds.arrive(_who(who), int(number))
                self._changed.notify_all()
            verdict, following = self._rounds.outcome(_who(who), int(number))
        return np.array([verdict.value, following], np.int64)

    # ---- the thread ----

    def _run(self) -> None:
        try:
            while True:
                self._make()
        except BaseException as error:  # noqa: BLE001 - the end of a thread: `steps` raises it where it is waited for
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _make(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._rounds.phase in (Phase.FULL, Phase.VOID))
            is_full, of = self._rounds.phase is Phase.FULL, self._rounds.sizes
        with self._sending:
            if is_full:
                self._update(np.array(of, np.int64))
            else:
                self._throw_away()
        with self._changed:
            self._rounds.finish()
            self._changed.notify_all()


def _who(who: Array) -> Who:
    index, incarnation, _, take = who.tolist()
    return Who(index, incarnation, take)

"""`sparktf runs NAME --expect`: whether a run came at all, for whoever watches the nights."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import NamedTuple

from sparktf.config.duration import duration_text
from sparktf.console.result_table import words_of
from sparktf.nightly.history import RunRecord, read_history
from sparktf.nightly.natural_order import natural_key
from sparktf.rundir import RunDirectory
from sparktf.runs.finding import RunsRoot, name_with_history, run_ids
from sparktf.runs.listing import roughly
from sparktf.storage.transactions.terms import last_word

_LOOKED_AT = 20
"""Folders that may be of a run under way: the last ones by their ids."""


class Coming(NamedTuple):
    """Whether a run came, in a line."""

    came: bool
    line: str


def look_for_run(output: RunsRoot, name: str, within_s: float, now_s: float, warn: Callable[[str], None]) -> Coming:
    """Returns whether a run of a name has ended within some time, however, or is under way with an owner at work.

    Args:
        now_s: Seconds since 1970.
        warn: Called for each row of the history that cannot be read, which is passed over.

    Raises:
        ConfigError: the name has no run, or no history.
        StorageError: the storage failed.
    """
    records = [record for record in read_history(output.storage, output.root, [name], warn) if record.started]
    last = max(records, key=_ended_s, default=None)
    if last is not None and now_s - _ended_s(last) <= within_s:
        return Coming(True, _told(last, now_s))
    ids = sorted(run_ids(output.storage, output.root, name), key=natural_key, reverse=True)
    for run_id in ids[:_LOOKED_AT]:
        if not last_word(output.storage, RunDirectory(output.root, name, run_id)).is_over(now_s):
            return Coming(True, f"{name}/{run_id} is under way")
    name_with_history(name, output)
    late = f"no run of {name} has ended within {duration_text(within_s)}, and none is under way"
    return Coming(False, late if last is None else f"{late}: the last one, {_told(last, now_s)}")


def _ended_s(record: RunRecord) -> float:
    return (record.started.timestamp() if record.started else 0.0) + sum(record.seconds.values())


def _told(record: RunRecord, now_s: float) -> str:
    ended_s = _ended_s(record)
    time = datetime.datetime.fromtimestamp(ended_s, datetime.UTC)
    ago = roughly(max(now_s - ended_s, 0.0))
    return f"{record.name}/{record.run_id}, ended {time:%Y-%m-%d %H:%M} UTC, {ago} ago: {words_of(record.verdict)}"

"""What ends a thread reaches whoever waits for it: nothing is done, or waited for, in silence."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from source_trees import nodes, sources, tree_of

from sparktf.topology import NodeId, Role
from sparktf.trainer.parameter_server.accounts import AskedRows
from sparktf.trainer.parameter_server.telling import Telling

ROOT = Path(__file__).parents[2] / "sparktf"

ENDS_ALONE = {
    ("compat/tensorflowonspark/tf_board.py", "_run"): "reads what a TensorBoard says",
    ("driver/spark/driver_tokens.py", "look"): "where tokens end, HDFS says so of whatever uses them",
    ("executor/detached_agent.py", "_end_with"): "ends the process",
    ("nightly/errand.py", "_read"): "reads what a program says",
    ("runs/board.py", "_read"): "reads what a TensorBoard says",
    ("storage/hdfs/hdfs_native.py", "_work"): "each call keeps what it raises",
    ("submit/process.py", "_read"): "reads what spark-submit says",
    ("trainer/__main__.py", "_watch_stdin"): "ends the process",
    ("trainer/node/report.py", "_run"): "without heartbeats the driver takes the trainer for lost",
    ("trainer/scoring.py", "_beat"): "without beats the task takes the process for hung",
    ("trainer/scoring.py", "_obey"): "a connection that breaks off is what its task sees",
}
"""Threads that need not say what ended them, and why."""


def spec() -> Any:
    return SimpleNamespace(attempt=1, sender={"attempt": 1, "node": NodeId(role=Role.CHIEF, index=0), "incarnation": 0})


class Breaks:
    """A place whose driver's answers make no sense."""

    def __init__(self) -> None:
        self.spec = spec()
        self.asked = threading.Event()

    def ask(self, *message: Any) -> Any:
        self.asked.set()
        raise ValueError("no such receipt")


def test_receipts_of_which_the_driver_could_not_be_told_end_whoever_waits_for_that() -> None:
    place: Any = Breaks()
    telling = Telling(place)
    telling.close([(NodeId(role=Role.WORKER, index=0), 0)])
    with pytest.raises(ValueError, match="no such receipt"):
        telling.flush()


def test_rows_that_nobody_can_count_are_not_waited_for() -> None:
    place: Any = Breaks()
    rows = AskedRows(place, 0, 0)
    assert place.asked.wait(10)
    with pytest.raises(ValueError, match="no such receipt"):
        while True:
            rows.left()


def targets(tree: ast.AST) -> Iterator[str]:
    """Yields the names of what threads run."""
    for node in nodes(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Thread"):
            yield from (ast.unparse(k.value).rpartition(".")[2] for k in node.keywords if k.arg == "target")


def catches_all(function: ast.FunctionDef) -> bool:
    handlers = (h for node in ast.walk(function) if isinstance(node, ast.Try) for h in node.handlers)
    names = [ast.unparse(h.type) if h.type is not None else "" for h in handlers]
    return any(name.strip("()").split(",")[0] in ("", "Exception", "BaseException") for name in names)


def test_each_thread_says_what_has_ended_it() -> None:
    silent = set()
    for path in sources("sparktf"):
        tree = tree_of(path)
        functions = [node for node in nodes(tree) if isinstance(node, ast.FunctionDef)]
        for target in set(targets(tree)):
            found = [f for f in functions if f.name == target]
            if found and not all(map(catches_all, found)):
                silent.add((str(path.relative_to(ROOT)), target))
    assert silent == set(ENDS_ALONE), "catch all, and keep it for whoever waits; or say here why nobody has to know"

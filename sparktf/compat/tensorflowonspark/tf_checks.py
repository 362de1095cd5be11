"""Checks of the arguments of TFCluster, before anything is reserved: errors that say what to write instead."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from pyspark import SparkContext

from sparktf.errors import ConfigError

_MODES = {0: "TENSORFLOW", 1: "SPARK"}


def context_of(sc: Any) -> SparkContext:
    """Returns a SparkContext as it is, and that of a SparkSession. Raises `ConfigError` for anything else."""
    found = getattr(sc, "sparkContext", sc)
    if not isinstance(found, SparkContext):
        raise ConfigError(f"sc must be a SparkContext, or a SparkSession, not {_type(sc)}")
    return found


def check_main(function: Any) -> None:
    """Raises `ConfigError` if what is to run on nodes is no function."""
    if not callable(function):
        raise ConfigError(f"map_fun must be a function of (args, ctx), not {_type(function)}: it comes before tf_args")


def check_mode(input_mode: Any) -> None:
    """Raises `ConfigError` if it is no mode: such as the name of one."""
    if isinstance(input_mode, bool) or input_mode not in _MODES:
        known = " or ".join(f"InputMode.{name} ({mode})" for mode, name in _MODES.items())
        raise ConfigError(f"input_mode must be {known}, not {input_mode!r}")


def check_count(name: str, count: Any, least: int) -> None:
    """Raises `ConfigError` if a number of nodes is none, or less than `least`."""
    if isinstance(count, bool) or not isinstance(count, Integral):
        hint = ": argparse gives one with type=int" if isinstance(count, str) else ""
        raise ConfigError(f"{name} must be a whole number, not {count!r}{hint}")
    if count < least:
        raise ConfigError(f"{name} must be {least} or more, not {count}")


def cluster_template(
    num_executors: int, num_ps: int, master_node: str | None, *, eval_node: bool
) -> dict[str, list[int]]:
    """Returns the nodes' numbers by name: parameter servers first, then a master, an evaluator, and workers.

    Raises:
        ConfigError: there are too few nodes, or none that works.
    """
    check_count("num_executors", num_executors, 1)
    check_count("num_ps", num_ps, 0)
    if master_node not in (None, "chief", "master"):
        raise ConfigError(f"master_node must be 'chief', 'master' or None, not {master_node!r}")
    asked = [("ps", num_ps), (str(master_node), int(master_node is not None)), ("evaluator", int(eval_node))]
    needed = sum(count for _, count in asked) + (master_node is None)
    if num_executors < needed:
        names = [f"{count} {name}" for name, count in [*asked, ("worker", int(master_node is None))] if count]
        raise ConfigError(
            f"num_executors={num_executors} is too few: {' + '.join(names)} are {needed} nodes, all of which it counts"
        )
    template: dict[str, list[int]] = {}
    left = list(range(num_executors))
    for job, count in asked:
        if count:
            template[job], left = left[:count], left[count:]
    if left:
        template["worker"] = left
    return template


def rdd_of(rows: Any, what: str) -> Any:
    """Returns an RDD or a DStream as it is, and the RDD of a DataFrame.

    Raises:
        ConfigError: it is none of these.
    """
    found = getattr(rows, "rdd", rows)
    if not hasattr(found, "mapPartitionsWithIndex"):
        hint = ": sc.parallelize(rows) makes one" if isinstance(rows, (list, tuple)) else ""
        raise ConfigError(f"TFCluster.{what}() takes an RDD, a DataFrame or a DStream, not {_type(rows)}{hint}")
    return found


def _type(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"

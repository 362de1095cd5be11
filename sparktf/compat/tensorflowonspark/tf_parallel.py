"""TensorFlowOnSpark's independent instances of a function, one on each node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import SparkContext

from sparktf.compat.tensorflowonspark.tf_checks import check_count, context_of
from sparktf.compat.tensorflowonspark.tf_cluster import make_guests
from sparktf.compat.tensorflowonspark.tf_node import TFNodeContext

_RESERVE_S = 600.0


def run(
    sc: SparkContext,
    map_fn: Callable[[Any, TFNodeContext], Any],
    tf_args: Any,
    num_executors: int,
    use_barrier: bool = True,
) -> None:
    """Runs `map_fn(tf_args, ctx)` on each node, in a process of its own, and returns when all have returned.

    Args:
        use_barrier: Without effect: all nodes have come before the first begins.

    Raises:
        SparkTFError: one failed; its traceback is in the error's notes.
    """
    del use_barrier
    check_count("num_executors", num_executors, 1)
    nodes = {"worker": list(range(num_executors))}
    alone = TFNodeContext.alone
    make_guests(context_of(sc), map_fn, tf_args, nodes, fed=False, reserve_s=_RESERVE_S, context=alone).finish()

"""The choice of what sums gradients over workers, for one attempt; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparktf.config.nodes import ClusterConfig
from sparktf.wire.trainer_spec import Collectives


class Chosen(NamedTuple):
    """What sums gradients, and why, for people."""

    collectives: Collectives
    why: str


def choose_collectives(cluster: ClusterConfig, *, is_loop: bool | None, gpus: Sequence[str]) -> Chosen:
    """Returns the choice.

    It is made before any node imports the user's code: TensorFlow's collectives have to be set up before that.

    Args:
        is_loop: Whether the model's function is a `train(node)`; None if its text does not tell.
        gpus: The hosts of nodes that see a GPU.
    """
    if cluster.collectives != "auto":
        return Chosen(cluster.collectives, f"cluster.collectives: {cluster.collectives}")
    if is_loop:
        return Chosen("tensorflow", "train(node) may ask for node.strategy")
    if is_loop is None:
        return Chosen("tensorflow", "the text of the model's module does not tell whether its function is train(node)")
    if gpus:
        return Chosen("tensorflow", f"there are GPUs on {', '.join(sorted(set(gpus)))}")
    return Chosen("sparktf", "no node sees a GPU, and the model's function builds a model")

"""The choice of what sums gradients over the workers of one attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sparktf.config.job import WITHOUT_GENERATIONS, JobConfig
from sparktf.config.nodes import ClusterConfig
from sparktf.driver.gang.seating import Seating
from sparktf.driver.gang.site import Site
from sparktf.errors import ConfigError
from sparktf.wire.trainer_spec import Collectives


class Chosen(NamedTuple):
    """The choice, and its reason for people."""

    collectives: Collectives
    why_collectives: str


def choose_collectives(seating: Seating, config: JobConfig, site: Site, say: Callable[[str], None]) -> Chosen:
    """Returns the choice for an attempt; says it where there are several workers, else it has no reason.

    It is made before any node imports the user's code: TensorFlow's collectives have to be set up before that.
    """
    cluster = config.cluster
    if not cluster.traits.several_workers or cluster.traits.has_servers or len(seating.workers) == 1:
        return Chosen("tensorflow", "")
    chosen = chosen_for(cluster, is_loop=site.is_loop(config), gpus=seating.gpus)
    if config.train.min_workers > 1 and chosen.collectives != "sparktf":
        raise ConfigError(
            f"train.min_workers: {config.train.min_workers} {WITHOUT_GENERATIONS} ({chosen.why_collectives})"
        )
    name = {"sparktf": "sparktf", "tensorflow": "TensorFlow"}[chosen.collectives]
    say(f"gradients are summed by {name}: {chosen.why_collectives}")
    return chosen


def chosen_for(cluster: ClusterConfig, *, is_loop: bool | None, gpus: Sequence[str]) -> Chosen:
    """Returns the choice by the configuration and facts.

    Args:
        is_loop: Whether the model's function is a `train(node)`; None if its text does not tell.
        gpus: The hosts of nodes that see a GPU.
    """
    if cluster.collectives != "auto":
        return Chosen(cluster.collectives, f"cluster.collectives is {cluster.collectives}")
    if is_loop:
        return Chosen("tensorflow", "the model's function is train(node), which may ask for node.strategy")
    if is_loop is None:
        return Chosen("tensorflow", "the text of the model's module does not tell whether its function is train(node)")
    if gpus:
        return Chosen("tensorflow", f"there are GPUs on {', '.join(sorted(set(gpus)))}")
    return Chosen("sparktf", "the model's function builds a model, and no node sees a GPU")

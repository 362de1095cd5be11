"""What a trainer does: the one table from a run's strategy and a node's role to a life.

A life is a function of the node's place. It takes of what a node is made of (`sparktf.trainer.node`) what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from sparktf.config.job import Strategy
from sparktf.errors import LifecycleError
from sparktf.topology import Role
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.report import Reporter
from sparktf.trainer.preload import put_off_wrappers, without_collector
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import TrainerSpec

Life = Callable[[Place], None]
"""Lives a trainer's life to its end; it returns only by ending the process, or by an exception."""


def _member(place: Place, *, mirrored: bool = False) -> None:
    """A worker that takes part in every update: place, input, saves and output."""
    put_off_wrappers()
    with without_collector():
        from sparktf.trainer.sync import training  # noqa: PLC0415 - TensorFlow reads its environment when imported

    training.train(place, mirrored=mirrored)


LIVES: Mapping[tuple[Strategy, Role], Life] = {
    ("single", Role.WORKER): _member,
    ("mirrored", Role.WORKER): partial(_member, mirrored=True),
    ("multi_worker_mirrored", Role.WORKER): _member,
}


def life_of(strategy: Strategy, role: Role) -> Life:
    """Returns what a node of a role does under a strategy.

    Raises:
        LifecycleError: the strategy has no such role.
    """
    life = LIVES.get((strategy, role))
    if life is None:
        raise LifecycleError(f"cluster.strategy: {strategy} has nothing to do for a node of role {role.value}")
    return life


def run(spec: TrainerSpec, client: ControlClient, reporter: Reporter, work: Path) -> None:
    """Lives the life that the specification names."""
    life = life_of(spec.config.cluster.strategy, spec.node.role)
    life(Place(spec, client, reporter, work))

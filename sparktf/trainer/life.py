"""The table from a run's strategy and a node's role to the function that is the trainer's life."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

from sparktf.config.strategies import Strategy
from sparktf.errors import LifecycleError
from sparktf.topology import Role
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.report import Reporter
from sparktf.trainer.preload import put_off_rare, without_collector
from sparktf.wire.channel import ControlClient
from sparktf.wire.trainer_spec import Training

Life = Callable[[Place], None]
"""Does a trainer's work to its end: it ends the process, or raises."""


def _member(place: Place) -> None:
    """Takes part in every update: place, input, saves and output."""
    put_off_rare()
    with without_collector():
        from sparktf.trainer.sync import training  # noqa: PLC0415 - TensorFlow reads its environment when imported

    training.train_synchronously(place)


def _coordinator(place: Place) -> None:
    """Coordinates the workers' updates: place, saves, output, and an input for evaluation."""
    with without_collector():
        from sparktf.trainer.parameter_server import coordinator  # noqa: PLC0415 - as above

    coordinator.coordinate(place)


def _served_worker(place: Place) -> None:
    """Makes updates when the coordinator sends executions: place and input."""
    with without_collector():
        from sparktf.trainer.parameter_server import worker  # noqa: PLC0415 - as above

    worker.work(place)


def _server(place: Place) -> None:
    """Holds variables: place only."""
    with without_collector():
        from sparktf.trainer.parameter_server import ps  # noqa: PLC0415 - as above

    ps.serve(place)


def _evaluator(place: Place) -> None:
    """Evaluates commits while others train: place, input and output."""
    put_off_rare()
    with without_collector():
        from sparktf.trainer import evaluator  # noqa: PLC0415 - as above

    evaluator.evaluate(place)


LIVES: Mapping[tuple[Strategy, Role], Life] = {
    ("single", Role.WORKER): _member,
    ("mirrored", Role.WORKER): _member,
    ("multi_worker_mirrored", Role.WORKER): _member,
    ("parameter_server", Role.CHIEF): _coordinator,
    ("parameter_server", Role.WORKER): _served_worker,
    ("parameter_server", Role.PS): _server,
    **{(strategy, Role.EVALUATOR): _evaluator for strategy in get_args(Strategy)},
}


def life_of(strategy: Strategy, role: Role) -> Life:
    """Returns the life of a node of this role.

    Raises:
        LifecycleError: the strategy has no such role.
    """
    life = LIVES.get((strategy, role))
    if life is None:
        raise LifecycleError(f"cluster.strategy: {strategy} has no role {role.value}")
    return life


def run(spec: Training, client: ControlClient, reporter: Reporter, work: Path) -> None:
    """Does the work that the specification names."""
    life = life_of(spec.config.cluster.strategy, spec.node.role)
    life(Place(spec, client, reporter, work))

"""Settings by which Spark allows an application's nodes to be lost: it would give all up after a few."""

from __future__ import annotations

from collections.abc import Container

from sparktf.config.job import JobConfig

LOSSES = 32
"""Losses of a node while its attempt goes on before Spark gives up all nodes: each time, its agent's task fails.
Spark's own number is 4. Tasks of `prepare` are retried as often, so it is not more."""

_LOST_OF_NODE = 2
"""Lost executors for each node that Spark by itself allows an application, and 3 at least."""


def allowed_failures(config: JobConfig) -> dict[str, str]:
    """Returns how often the task of one agent may fail; nothing where a lost node ends the attempt."""
    return {"spark.task.maxFailures": str(LOSSES)} if config.cluster.outlives_losses else {}


def allowed_executors(config: JobConfig) -> dict[str, str]:
    """Returns how many executors may be lost: Spark would count those that it starts with."""
    allowed = config.cluster.nodes * (LOSSES if config.cluster.outlives_losses else _LOST_OF_NODE)
    return {"spark.executor.maxNumFailures": str(max(allowed, 3))}


def missing_losses(config: JobConfig, given: Container[str]) -> dict[str, str]:
    """Returns both for an application that somebody has submitted without them; `given` are the settings it has.

    Nothing where a lost node ends the attempt: Spark's own numbers do.
    """
    if not config.cluster.outlives_losses:
        return {}
    wanted = {**allowed_failures(config), **allowed_executors(config)}
    return {key: value for key, value in wanted.items() if key not in given}

"""The settings of Spark that concern a guest's nodes: their time limits, and whether there are slots for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from sparktf.config.timeouts import TimeoutsConfig
from sparktf.driver.attempt.functions import LIMITS
from sparktf.driver.spark.masters import Slots
from sparktf.errors import ConfigError, PreflightError
from sparktf.feed.channel.guest_queue import AFTER_FEED

_NAMES = ("heartbeat", "start", "driver_lost", "stop")
_AFTER_FEED, _AFTER_FEED_S = AFTER_FEED.removeprefix(LIMITS), 3600.0


class GuestTimeouts(NamedTuple):
    """The time limits of a guest's nodes.

    Attributes:
        nodes: Those that nodes have in a training, too.
        after_feed_s: For a function to return after the end of its rows.
    """

    nodes: TimeoutsConfig
    after_feed_s: float


def guest_timeouts(conf: Mapping[str, str]) -> GuestTimeouts:
    """Returns the time limits of a guest's nodes: a program of another package has no other place for them.

    Args:
        conf: Spark's settings; `spark.sparktf.timeouts.heartbeat=60` is `timeouts.heartbeat`, in seconds.

    Raises:
        ConfigError: one is no such limit, or no number above 0.
    """
    found: dict[str, float] = {}
    for key, value in conf.items():
        name = key.removeprefix(LIMITS)
        if name == key:
            continue
        if name not in (*_NAMES, _AFTER_FEED):
            known = ", ".join(LIMITS + known for known in (*_NAMES, _AFTER_FEED))
            raise ConfigError(f"{key} is no time limit of TFCluster's nodes: there are {known}")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = 0.0
        if not 0 < found[name] < math.inf:
            raise ConfigError(f"{key} must be a number of seconds above 0, not {value!r}")
    after_feed_s = found.pop(_AFTER_FEED, _AFTER_FEED_S)
    return GuestTimeouts(TimeoutsConfig.model_validate(found), after_feed_s)


def check_guest_slots(slots: Slots, task_cpus: int, nodes: int, said: str) -> None:
    """Refuses more nodes than the application has slots, if it is known how many: they would be waited for in vain.

    Args:
        task_cpus: `spark.task.cpus`.
        nodes: Of those on executors.
        said: Where the number of nodes is set.

    Raises:
        PreflightError: it says what to set.
    """
    if slots.executors is None:
        return
    places = slots.executors * (slots.cores // task_cpus)
    if places >= nodes:
        return
    cores = nodes * task_cpus
    remedy = f"'local[{cores}]'" if slots.master.runs_in_driver else f"'local-cluster[{nodes},{max(1, task_cpus)},...]'"
    each = "" if task_cpus == 1 else f" of spark.task.cpus={task_cpus} each"
    raise PreflightError(
        f"{nodes} nodes need as many slots{each}, but {slots.master.url} has {places}: use --master {remedy}; or lower "
        f"{said}"
    )

"""The one table from a run's strategy to what it means for the gang."""

from __future__ import annotations

from collections.abc import Mapping

from sparktf.config.strategies import Strategy
from sparktf.driver.attempt.asynchronous import Asynchronous
from sparktf.driver.attempt.discipline import Discipline
from sparktf.driver.attempt.lockstep import Lockstep

DISCIPLINES: Mapping[Strategy, Discipline] = {
    "single": Lockstep(),
    "mirrored": Lockstep(),
    "multi_worker_mirrored": Lockstep(),
    "parameter_server": Asynchronous(),
}

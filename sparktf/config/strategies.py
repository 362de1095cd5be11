"""The strategies as one table of traits: code asks for a trait, never which strategy it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Strategy = Literal["single", "mirrored", "multi_worker_mirrored", "parameter_server"]


@dataclass(frozen=True, slots=True)
class StrategyTraits:
    """The meaning of a strategy for the gang and its updates."""

    several_workers: bool = False  # `cluster.workers` nodes train; else one
    splits_devices: bool = False  # A node that trains does so on each of its `cluster.devices`; else on one
    has_servers: bool = False  # `cluster.ps` nodes hold the variables, and one more node coordinates
    # All workers make every update together, each bringing its share of the rows; else each makes updates of its own,
    # and waits for none
    updates_together: bool = True
    outlives_losses: bool = False  # An attempt goes on when a worker is lost, and another takes its place
    # Updates of a call into TensorFlow, or of a worker's execution, where the user does not say
    steps_per_call: int = 32


STRATEGIES: Mapping[Strategy, StrategyTraits] = {
    "single": StrategyTraits(),
    "mirrored": StrategyTraits(splits_devices=True),
    "multi_worker_mirrored": StrategyTraits(several_workers=True, splits_devices=True),
    "parameter_server": StrategyTraits(
        several_workers=True, has_servers=True, updates_together=False, outlives_losses=True, steps_per_call=256
    ),
}

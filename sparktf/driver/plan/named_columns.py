"""Which columns of a source a configuration may name, before the source's schema is known."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from sparktf.config.data_section import DataConfig


def names_column(data: DataConfig, column: str) -> bool:
    """Whether the configuration may name a column of a source, or a field in it."""
    features = (*data.inputs.values(), *data.targets.values())
    weights = data.sample_weight
    named = [name for feature in features for name in _listed(feature.columns)]
    named += [weights] if isinstance(weights, str) else list((weights or {}).values())
    return any(_may_stand_for(name, column) for name in named)


def _listed(columns: str | Sequence[str]) -> Sequence[str]:
    return [columns] if isinstance(columns, str) else columns


def _may_stand_for(name: str, column: str) -> bool:
    if name == column or name.startswith(f"{column}.") or fnmatchcase(column, name):
        return True
    return is_pattern(name) and name.startswith(f"{column}.")


def is_pattern(name: str) -> bool:
    """Whether a name may stand for several columns."""
    return any(sign in name for sign in "*?[")

"""The section `data.checks` of the configuration."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Self

from annotated_types import Ge, Gt, Le
from pydantic import BeforeValidator, Field, model_validator

from sparktf.config.section import Section

MOST_VALUES = 50
"""Half of the commonest values that are counted, so that a forbidden value is among these."""


def _ordered(value: Any) -> Any:
    """Checks the order of two numbers; any other value is left to pydantic."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise ValueError("must be [least, most]")
    numbers = [end for end in value if isinstance(end, (int, float))]
    if len(numbers) == 2 and not numbers[0] <= numbers[1]:
        raise ValueError(f"must be [least, most], and {numbers[0]} is more than {numbers[1]}")
    return tuple(value)


Range = Annotated[tuple[float, float], BeforeValidator(_ordered)]
"""Lower and upper bound of a figure."""

Fraction = Annotated[float, Ge(0), Le(1)]


class ColumnBounds(Section):
    """Bounds of a column, both included."""

    KEY: ClassVar = "data.checks.refuse.columns.<name>"

    min: float | str | None = Field(
        default=None, description="Least value that there may be; of dates and timestamps as `2026-11-20`."
    )
    max: float | str | None = Field(default=None, description="Greatest value that there may be.")
    mean: Range | None = Field(default=None, description="Least and greatest mean, e.g. `[30, 45]`.")
    deviation: Range | None = Field(default=None, description="Least and greatest standard deviation.")
    null_share: Fraction | None = Field(default=None, description="Greatest share of rows that are null.")
    nan_share: Fraction | None = Field(
        default=None, description="Greatest share of rows that are NaN or infinite, or whose list holds such a value."
    )
    distinct: Range | None = Field(
        default=None, description="Least and greatest number of distinct values, which is known within some 5 %."
    )
    values: tuple[bool | int | float | str, ...] | None = Field(
        default=None, min_length=1, max_length=MOST_VALUES, description="The only values that there may be."
    )
    length: Range | None = Field(default=None, description="Least and greatest length of a list, or bytes of a value.")

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        low, high = self.min, self.max
        if isinstance(low, str) is isinstance(high, str) and low is not None and high is not None and low > high:  # type: ignore[operator]
            raise ValueError(f"min: {low} is more than max: {high}")
        if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
            raise ValueError("min and max must be numbers, and nan is none")
        return self


class DriftBounds(Section):
    """How far the data may differ from that of the published model, or else of the last completed run."""

    KEY: ClassVar = "data.checks.refuse.drift"

    row_ratio: Range | None = Field(default=None, description="Rows over rows of then, e.g. `[0.5, 2]`.")
    columns: bool = Field(default=False, description="No column may come, go, or change its type.")
    null_share: Fraction | None = Field(
        default=None, description="How much more or less of a column may be null, as a share of the rows."
    )
    linf: Fraction | None = Field(
        default=None, description="Greatest L-infinity distance of text and booleans: of the shares of one value."
    )
    js: Fraction | None = Field(default=None, description="Greatest Jensen-Shannon divergence of numbers, in bits.")
    label: Fraction | None = Field(
        default=None,
        description="For columns of targets, in place of `linf` and `js`: L-infinity distance of classes, "
        "Jensen-Shannon divergence of other numbers.",
    )
    ignore: tuple[str, ...] = Field(
        default=(), description="Columns that `null_share`, `linf` and `js` pass over, such as a day."
    )


class BoundsConfig(Section):
    """Bounds of the data."""

    KEY: ClassVar = "data.checks.refuse"

    rows: Range | None = Field(default=None, description="Least and most rows, e.g. `[1000000, .inf]`.")
    columns: dict[str, ColumnBounds] = Field(default={}, description="Column that an input, target or weight uses.")
    drift: DriftBounds = Field(default=DriftBounds(), description="Against an earlier run.")


class ChecksConfig(Section):
    """Statistics of every used column, and bounds for them. Without bounds the statistics are only stored.

    See [data-checks.md](../nights/data-checks.md).
    """

    KEY: ClassVar = "data.checks"

    sample: Annotated[float, Gt(0), Le(1)] = Field(
        default=1.0, description="Share of the rows that statistics are made of."
    )
    refuse: BoundsConfig = Field(
        default=BoundsConfig(), description="What ends the run with exit code 3 where it does not hold."
    )
    warn: BoundsConfig = Field(default=BoundsConfig(), description="What is a warning where it does not hold.")

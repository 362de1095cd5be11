"""The section `gate` of the configuration: the conditions under which a new model replaces the published one."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from sparktf.config.section import Section


class GatedMetric(Section):
    """Conditions on one validation metric."""

    KEY: ClassVar = "gate.metrics.<name>"

    min: float | None = Field(default=None, allow_inf_nan=False, description="The new model's must be at least this.")
    max: float | None = Field(default=None, allow_inf_nan=False, description="The new model's must be at most this.")
    tolerance: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="By so much the new model may be worse than the published one, in units of the metric. Without it "
        "the two are not compared by this metric, only shown.",
    )
    mode: Literal["auto", "min", "max"] = Field(
        default="auto", description="Whether it should be small or large. `auto`: by its name, as Keras does."
    )

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min: {self.min} is more than max: {self.max}")
        return self


class GateConfig(Section):
    """Compares the new model with the published one on the same held-out rows ([gate.md](../nights/gate.md)).

    It needs `data.validation` and `publish`. A model that is not let through is not published: exit code 5.
    """

    KEY: ClassVar = "gate"

    metrics: dict[str, GatedMetric] = Field(
        min_length=1, description="Validation metric, by Keras's name, with or without `val_` -> what is asked of it."
    )
    slices: tuple[str, ...] = Field(
        default=(),
        description="Columns by whose values the rows are compared apart as well: the new model must not be worse on "
        "any of these slices. Columns that an input, target or weight is made of.",
    )
    min_rows: PositiveInt = Field(default=1000, description="Slices with fewer rows are not compared.")
    undecided: Literal["promote", "keep"] = Field(
        default="keep",
        description="What happens where the rows do not tell whether the new model is good enough: it is published, "
        "or the published one is kept.",
    )
    champion_lost: Literal["promote", "keep"] = Field(
        default="keep",
        description="What happens where the published model can no longer be loaded, or needs inputs that the data "
        "does not have: the new one is judged by `min` and `max` alone, or the published one is kept.",
    )
    anchor: NonNegativeInt = Field(
        default=7,
        description="The new model must not be worse, by the same tolerances, than the best of this many versions "
        "published last either: what is lost bit by bit within the tolerance is not lost without end. 0: it is "
        "compared with the published one alone.",
    )
    confidence: float = Field(
        default=0.95, gt=0.5, lt=1, description="Of the intervals of the differences between both models."
    )
    seed: NonNegativeInt = Field(default=0, description="Of the resamples that the intervals come from.")

    @field_validator("slices")
    @classmethod
    def _are_distinct(cls, slices: tuple[str, ...]) -> tuple[str, ...]:
        twice = [name for name in slices if slices.count(name) > 1]
        if twice:
            raise ValueError(f"{twice[0]} is given twice: give it once")
        return slices

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        metrics = self.metrics.values()
        if all(m.min is None and m.max is None and m.tolerance is None for m in metrics):
            raise ValueError("metrics: no metric has a bound: give one of them a min, a max or a tolerance")
        if self.slices and all(m.tolerance is None for m in metrics):
            raise ValueError("slices need a metric with a tolerance: give one, or leave slices out")
        return self

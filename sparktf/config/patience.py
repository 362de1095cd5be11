"""The sections of `train` that look at a metric after each epoch."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, NonNegativeInt

from sparktf.config.section import Section


class WatchedMetric(Section):
    """A metric that is looked at after each epoch, over all workers."""

    metric: str = Field(
        default="loss",
        min_length=1,
        description="Validation metric, by Keras's name, with or without `val_`. Without `data.validation` there is "
        "`loss` alone, which is that of training: the mean over the epoch's rows, each at its own update.",
    )
    mode: Literal["auto", "min", "max"] = Field(
        default="auto", description="Whether it should get smaller or larger. `auto`: by its name, as Keras does."
    )

    def complaint(self, key: str, *, validates: bool, evaluator: bool) -> str | None:
        """Returns why the metric will not exist after an epoch; None if it may.

        Args:
            key: Key of this section.
            validates: Whether `data.validation` is set.
            evaluator: Whether a separate node evaluates.
        """
        if evaluator:
            return (
                f"{key} needs metrics after each epoch, and with cluster.evaluator: true training does not "
                "wait for them: set cluster.evaluator: false"
            )
        if not validates and self.metric != "loss":
            return f"{key}.metric: {self.metric} is a validation metric: give data.validation, or leave it at loss"
        return None


class EarlyStoppingConfig(WatchedMetric):
    """Ends the training when a metric gets no better, as Keras's EarlyStopping.

    See [stopping.md](../nights/stopping.md).
    """

    KEY: ClassVar = "train.early_stopping"

    min_delta: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="The least change that counts as better."
    )
    patience: NonNegativeInt = Field(
        default=0, description="Epochs in a row without improvement after which training ends; 0 means 1."
    )
    baseline: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="A value that is no better than this does not count as an improvement.",
    )


class ReduceLrConfig(WatchedMetric):
    """Lowers the learning rate when a metric gets no better, as Keras's ReduceLROnPlateau.

    See [stopping.md](../nights/stopping.md).

    The optimizer needs a learning rate that is a number, not a schedule.
    """

    KEY: ClassVar = "train.reduce_lr_on_plateau"

    factor: float = Field(default=0.1, gt=0, lt=1, description="The learning rate is multiplied by it.")
    patience: NonNegativeInt = Field(
        default=10, description="Epochs in a row without anything better before that; 0 is as 1."
    )
    min_delta: float = Field(
        default=1e-4, ge=0, allow_inf_nan=False, description="The least change that counts as better."
    )
    cooldown: NonNegativeInt = Field(
        default=0, description="Epochs after that before it counts again; 0 and 1 mean the same, as in Keras."
    )
    min_lr: float = Field(default=0.0, ge=0, allow_inf_nan=False, description="The learning rate gets no lower.")

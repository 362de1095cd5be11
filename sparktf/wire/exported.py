"""The inputs and outputs of an exported model: scoring converts columns exactly as training did."""

from __future__ import annotations

from sparktf.feature import TEXT, FeedSpec
from sparktf.message import Message

EXPORTED = "feed.json"
"""The file beside the exported model, and in its published version."""


class ModelOutput(Message):
    """One output of a model."""

    name: str
    dtype: str  # TensorFlow dtype name, "string" for text
    shape: tuple[int | None, ...]  # Shape of one row, () for a single value; None for a size that varies between calls

    @property
    def is_text(self) -> bool:
        return self.dtype == TEXT

    @property
    def is_single(self) -> bool:
        """Whether each row has a single value, not a list; also for Keras's shape [batch, 1]."""
        return self.shape in ((), (1,))


class ModelFeed(Message):
    """The content of the file that describes a model's inputs and outputs."""

    spec: FeedSpec  # Its features are the inputs only; their columns are those of the source
    outputs: tuple[ModelOutput, ...]  # Sorted by name
    # Version of the Delta table, or snapshot of the Iceberg table, of the training; None for other sources
    source_version: int | None = None
    # Whether its only output is logits, False for probabilities; None where neither its last layer nor its loss says
    from_logits: bool | None = None


def inputs_alone(spec: FeedSpec) -> FeedSpec:
    """Returns the part of a training's feed that scoring needs, for any source."""
    used = {column for feature in spec.inputs for column in feature.columns}
    fills = {column: value for column, value in spec.fill_null.items() if column in used}
    return FeedSpec(features=spec.inputs, fill_null=fills, shuffle=False)

"""The columns of Spark's own classifiers, made of a Keras model's output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pyspark.ml.functions import array_to_vector
from pyspark.sql import Column
from pyspark.sql import functions as sql

_LEAST = 2.0**-150
"""Stands for a probability of 0, which has no logit; less than any other float32."""
_MOST = 1 - 2.0**-25
"""Stands for a probability of 1; more than any other float32."""


class ClassScores(NamedTuple):
    """Columns for the classes of each row."""

    raw: Column  # Logits as a vector [classes]
    probability: Column  # Probabilities as a vector [classes]
    prediction: Column  # The likeliest class, or that of most probability for its threshold, as a double


def class_scores(
    output: Column, classes: int, *, is_single: bool, from_logits: bool, thresholds: Sequence[float] = ()
) -> ClassScores:
    """Returns the scores of a model's output.

    Args:
        output: One value, of the second of two classes, or an array of one for each class.
        from_logits: The output is logits, and not probabilities.
        thresholds: One for each class, none for the likeliest class.
    """
    if is_single:
        value = output.cast("double")
        raw, probability = _of_logit(value) if from_logits else _of_chance(value)
        likeliest = (value > (0.0 if from_logits else 0.5)).cast("double")
    else:
        values = output.cast("array<double>")
        raw, probability = _of_logits(values) if from_logits else _of_chances(values)
        likeliest = _greatest(values)
    if thresholds:
        likeliest = _greatest(sql.zip_with(probability, sql.array(*map(sql.lit, thresholds)), _over))
    vectors = {"ml_attr": {"num_attrs": classes}}
    return ClassScores(
        array_to_vector(raw).alias("raw", metadata=vectors),
        array_to_vector(probability).alias("probability", metadata=vectors),
        never_null(likeliest).alias("prediction", metadata={"ml_attr": {"type": "nominal", "num_vals": classes}}),
    )


def never_null(prediction: Column) -> Column:
    """Returns a column that is not nullable, as predictions of Spark's own models: no row lacks one."""
    return sql.coalesce(prediction, sql.lit(float("nan")))


def _of_logit(logit: Column) -> tuple[Column, Column]:
    one = sql.lit(1.0)
    return sql.array(-logit, logit), sql.array(one / (one + sql.exp(logit)), one / (one + sql.exp(-logit)))


def _of_chance(chance: Column) -> tuple[Column, Column]:
    logit = _log(chance) - sql.when(sql.isnan(chance), chance).otherwise(sql.log1p(-_inner(chance)))
    return sql.array(-logit, logit), sql.array(sql.lit(1.0) - chance, chance)


def _of_logits(logits: Column) -> tuple[Column, Column]:
    def powers(greatest: Column) -> Column:
        return sql.transform(logits, lambda logit: sql.exp(logit - greatest))

    return logits, _with(_with(sql.array_max(logits), powers), _in_shares)


def _of_chances(chances: Column) -> tuple[Column, Column]:
    return sql.transform(chances, _log), _with(chances, _in_shares)


def _log(chance: Column) -> Column:
    return sql.when(sql.isnan(chance), chance).otherwise(sql.log(_inner(chance)))


def _inner(chance: Column) -> Column:
    return sql.least(sql.greatest(chance, sql.lit(_LEAST)), sql.lit(_MOST))


def _in_shares(values: Column) -> Column:
    """Returns values divided by their sum, as Keras's losses do with probabilities; zeros alone as they are."""
    total = sql.aggregate(values, sql.lit(0.0), lambda so_far, value: so_far + value)

    def shared(by: Column) -> Column:
        return sql.transform(values, lambda value: value / by)

    return _with(sql.when(total == 0, sql.lit(1.0)).otherwise(total), shared)


def _with(value: Column, body: Callable[[Column], Column]) -> Column:
    """Returns a column made of a value that is computed once for a row, and not for each class anew."""
    return sql.transform(sql.array(value), body)[0]


def _over(chance: Column, threshold: Column) -> Column:
    """Returns a probability by its threshold: of 0 any probability is over it, and none is not."""
    none = sql.when(chance > 0, sql.lit(float("inf"))).otherwise(sql.lit(float("-inf")))
    return sql.when(threshold == 0, none).otherwise(chance / threshold)


def _greatest(values: Column) -> Column:
    """Returns the class of the greatest value, the first one of several, as a double."""
    return (sql.call_function("array_position", values, sql.array_max(values)) - sql.lit(1)).cast("double")

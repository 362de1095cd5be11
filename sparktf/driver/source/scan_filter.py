"""Filters over columns in the files, as Spark planned them, that trainers can apply as Spark would.

An allowlist again: a column of a common type compared with constants of the same type, tests for null, and these joined
by `and`. Nothing that Spark would compute first (a cast, a function, another column) is on it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.spark.jvm import Java, class_of, elements
from sparktf.predicate import Condition, Op

EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
COLUMN = f"{EXPRESSIONS}.AttributeReference"
_LITERAL = f"{EXPRESSIONS}.Literal"

_OPS = {
    f"{EXPRESSIONS}.EqualTo": Op.EQ,
    f"{EXPRESSIONS}.LessThan": Op.LT,
    f"{EXPRESSIONS}.LessThanOrEqual": Op.LE,
    f"{EXPRESSIONS}.GreaterThan": Op.GT,
    f"{EXPRESSIONS}.GreaterThanOrEqual": Op.GE,
}
_NULL_TESTS = {f"{EXPRESSIONS}.IsNull": Op.NULL, f"{EXPRESSIONS}.IsNotNull": Op.NOT_NULL}
_TURNED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}

_WHOLE = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz")
_FRACTIONAL = ("float", "double")
_TYPES = (*_WHOLE, *_FRACTIONAL, "string", "boolean")


class Compared(NamedTuple):
    """A comparison before its column's name in the files is known."""

    id: str  # The column's id in Spark's plan
    kind: str  # Its type in Spark
    op: Op
    values: tuple[bool | int | float | str, ...] = ()

    def named(self, column: str) -> Condition:
        """Returns the comparison of a column in the files."""
        return Condition(column=column, op=self.op, values=self.values)


def comparisons(condition: Java) -> list[Compared]:
    """Returns the parts of a filter's condition that `and` joins. Raises `NotPlainError` if there are other parts."""
    found = _comparisons(condition)
    if found is None:
        raise NotPlainError(f"the plan has a filter on columns in the files, {condition.sql()}")
    return found


def _comparisons(condition: Java) -> list[Compared] | None:
    kind = class_of(condition)
    if kind == f"{EXPRESSIONS}.And":
        sides = [_comparisons(condition.left()), _comparisons(condition.right())]
        return None if None in sides else [compared for side in sides if side is not None for compared in side]
    one = _negated(condition.child()) if kind == f"{EXPRESSIONS}.Not" else _comparison(condition, kind)
    return None if one is None else [one]


def _negated(condition: Java) -> Compared | None:
    if class_of(condition) == COLUMN:
        return _of_column(condition, Op.EQ, False)
    found = _comparison(condition, class_of(condition))
    return None if found is None or found.op is not Op.EQ else found._replace(op=Op.NE)


def _comparison(condition: Java, kind: str) -> Compared | None:
    if kind == COLUMN:
        return _of_column(condition, Op.EQ, True)
    if kind in _NULL_TESTS:
        return _of_column(condition.child(), _NULL_TESTS[kind])
    if kind == f"{EXPRESSIONS}.In":
        found = [_constant(element, condition.value()) for element in elements(condition.list())]
        constants = [constant for constant in found if constant is not None]
        # Spark may look fractions up by their bits.
        is_simple = len(constants) == len(found) and _type(condition.value()) not in _FRACTIONAL
        return _of_column(condition.value(), Op.IN, *constants) if is_simple else None
    if kind not in _OPS:
        return None
    op, column, constant = _OPS[kind], condition.left(), condition.right()
    if class_of(column) == _LITERAL:
        op, column, constant = _TURNED.get(op, op), constant, column
    value = _constant(constant, column)
    return None if value is None else _of_column(column, op, value)


def _of_column(column: Java, op: Op, *values: bool | int | float | str) -> Compared | None:
    if class_of(column) != COLUMN or _type(column) not in _TYPES:
        return None
    return Compared(column_id(column), _type(column), op, values)


def _constant(literal: Java, column: Java) -> bool | int | float | str | None:
    """Returns a constant of the column's own type, as `Condition` has it; None for anything else."""
    kind = _type(column)
    if class_of(literal) != _LITERAL or kind not in _TYPES or _type(literal) != kind:
        return None
    value = literal.value()
    if value is None:
        return None
    if kind == "string":
        return str(value.toString())
    if kind in _FRACTIONAL:
        return None if math.isnan(value) else float(value)
    return bool(value) if kind == "boolean" else int(value)


def _type(expression: Java) -> str:
    return str(expression.dataType().simpleString())


def column_id(column: Java) -> str:
    """Returns the id of a column in a plan, independent of its name."""
    return str(column.exprId().toString())

"""The ids by which Iceberg's files are known to hold a table's columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparktf.driver.plan.field_ids import check_ids, ids_in_table
from sparktf.driver.plan.not_plain import NotPlainError

TABLE = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long"},
        {
            "id": 2,
            "name": "user",
            "type": {
                "type": "struct",
                "fields": [
                    {"id": 3, "name": "age", "type": "int"},
                    {"id": 4, "name": "scores", "type": {"type": "list", "element-id": 5, "element": "float"}},
                ],
            },
        },
    ],
}
IDS = {"id": 1, "user": 2, "user.age": 3, "user.scores": 4, "user.scores.[]": 5}


def field(name: str, kind: pa.DataType, number: int | None) -> pa.Field:
    return pa.field(name, kind, metadata=None if number is None else {"PARQUET:field_id": str(number)})


def schema(*, number: int | None = 1, age: int | None = 3, element: int | None = 5, called: str = "age") -> pa.Schema:
    scores = field("scores", pa.list_(field("element", pa.float32(), element)), 4)
    user = field("user", pa.struct([field(called, pa.int32(), age), scores]), 2)
    return pa.schema([field("id", pa.int64(), number), user])


def test_a_tables_ids_are_told_of_all_that_is_in_its_columns() -> None:
    assert ids_in_table(TABLE) == IDS
    check_ids("f", schema(), ["id", "user"], IDS)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (schema(number=7), "f: column 'id' is another one than the table's"),
        (schema(number=None), "f: column 'id' has no id"),
        (schema(age=4), "f: column 'user.age' is another one than the table's"),
        (schema(element=None), r"f: column 'user.scores.\[\]' has no id"),
        (schema(called="years"), "f: column 'user.years' has another name in the table"),
    ],
)
def test_a_column_of_another_id_is_another_column(found: pa.Schema, says: str) -> None:
    with pytest.raises(NotPlainError, match=says):
        check_ids("f", found, ["id", "user"], IDS)


def test_what_is_not_read_may_be_another_column() -> None:
    check_ids("f", schema(age=None), ["id"], IDS)

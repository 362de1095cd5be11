"""Filters, partitions and held-out rows: the rows of each stream are those that the docs promise, each once."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.cases import NewFolder, cases
from fuzz.cells import SCALARS, Told
from fuzz.lake_cases import rows_of
from fuzz.parquet_files import FileShape, file_shapes, write
from fuzz.reading import ids_of, read_share
from fuzz.takes import ID
from fuzz.tensors import Column, Row
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from lakes import deal, lake_config, no_filter

from sparktf.driver.plan.parquet_scan import ParquetScan
from sparktf.driver.plan.partitions import Partitions
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.planner import plan_source
from sparktf.errors import EmptySourceError
from sparktf.feed.arrays.columns import Strings
from sparktf.predicate import Condition, Op
from sparktf.sequence import Stream
from sparktf.storage.file_systems import open_storage

COMPARED = tuple(cells for cells in SCALARS if cells.filters)
ORDERED = (Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE)
_MEANS = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
}


@dataclass(frozen=True)
class Filtered(Told):
    """Files, and the comparisons that their rows must pass.

    Attributes:
        where: Column, comparison, and constants that are values of the column.
        fraction: Share of the rows that is held out.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    files: tuple[FileShape, ...]
    where: tuple[tuple[Column, Op, tuple[Any, ...]], ...]
    fraction: float | None
    nodes: int
    shuffle: bool

    def passes(self, row: Row) -> bool:
        return all(holds(row[column.name], column, op, values) for column, op, values in self.where)


def holds(value: Any, column: Column, op: Op, constants: tuple[Any, ...]) -> bool:
    """Whether a comparison holds, as Spark decides it: null in no comparison, NaN greater than any number."""
    if op in (Op.NULL, Op.NOT_NULL):
        return (value is None) is (op is Op.NULL)
    if value is None:
        return False
    found = place(column, value)
    if op is Op.IN:
        return any(found == place(column, constant) for constant in constants)
    return bool(_MEANS[op](found, place(column, constants[0])))


def place(column: Column, value: Any) -> tuple[bool, Any]:
    """Returns what orders values as Spark does."""
    number = column.cells.number(value)
    if isinstance(number, bytes):
        return False, number
    exact = number.item()
    is_nan = isinstance(exact, float) and math.isnan(exact)
    return is_nan, 0 if is_nan else exact


@st.composite
def filtered(draw: DrawFn) -> Filtered:
    """Draws a lake, and comparisons with constants that may be in it."""
    found = [Column(f"c{i}", draw(st.sampled_from(COMPARED))) for i in range(draw(st.integers(1, 3)))]
    shapes = draw(st.lists(file_shapes([ID, *found]), min_size=1, max_size=3))
    rows = draw(rows_of(found, sum(shape.rows for shape in shapes)))
    where = []
    for _ in range(draw(st.integers(1, 3))):
        column = draw(st.sampled_from(found))
        known = [row[column.name] for row in rows if row[column.name] is not None]
        values = column.cells.values | st.sampled_from(known) if known else column.cells.values
        values = values.filter(lambda value: value == value)  # noqa: PLR0124 - Spark compares with no NaN
        fractional = column.cells.spark in ("float", "double")
        op = draw(st.sampled_from((*ORDERED, Op.NULL, Op.NOT_NULL, *(() if fractional else (Op.IN,)))))
        size = {Op.NULL: (0, 0), Op.NOT_NULL: (0, 0), Op.IN: (0, 3)}.get(op, (1, 1))
        where.append((column, op, tuple(draw(st.lists(values, min_size=size[0], max_size=size[1])))))
    fraction = draw(st.none() | st.sampled_from((0.1, 0.5, 0.9)))
    return Filtered(
        (ID, *found), tuple(rows), tuple(shapes), tuple(where), fraction, draw(st.integers(1, 3)), draw(st.booleans())
    )


def constant(column: Column, value: Any) -> Any:
    """Returns a value as a comparison has it."""
    return value if isinstance(value, str) else column.cells.number(value).item()


@cases(filtered())
def test_the_rows_that_pass_a_filter_are_those_that_spark_would_find(case: Filtered, new_folder: NewFolder) -> None:
    paths = written(new_folder(), case.files, case.columns, case.rows)
    scan = ParquetScan(
        files=tuple(paths),
        columns={column.name: column.name for column in case.columns},
        types={column.name: column.spark for column in case.columns},
        partitions=Partitions((), (), ((),) * len(paths)),
        where=tuple(
            Condition(column=column.name, op=op, values=tuple(constant(column, value) for value in values))
            for column, op, values in case.where
        ),
        compared={column.name: column.spark for column, _, _ in case.where},
    )
    validation = None if case.fraction is None else {"fraction": case.fraction}
    data: dict[str, Any] = {"inputs": {"id": "id"}, "targets": {"y": "id"}, "shuffle_rows": 7}
    config = lake_config(None, table="t", shuffle=case.shuffle, validation=validation, **data)
    passing = [row["id"] for row in case.rows if case.passes(row)]
    held_out = 0 if case.fraction is None else math.floor(len(passing) * case.fraction + 0.5)
    if not passing or held_out == len(passing) or (case.fraction is not None and not held_out):
        with pytest.raises(EmptySourceError):
            plan_source(config, open_storage, no_filter, scan=scan)
        return
    plan = plan_source(config, open_storage, no_filter, scan=scan)
    trained = ids_in(plan, Stream.TRAIN, case.nodes)
    held = ids_in(plan, Stream.VALIDATION, case.nodes) if case.fraction is not None else []
    assert len(held) == held_out
    assert sorted(trained + held) == passing


def written(
    folder: Path, files: tuple[FileShape, ...], columns: tuple[Column, ...], rows: tuple[Row, ...]
) -> list[str]:
    """Writes the files; returns their paths."""
    paths, first = [], 0
    for i, shape in enumerate(files):
        path = folder / shape.folder / f"{i:02d}.parquet"
        write(path, shape, columns, rows[first : first + shape.rows])
        paths.append(str(path))
        first += shape.rows
    return paths


def ids_in(plan: Plan, stream: Stream, nodes: int) -> list[int]:
    """Returns the ids of a stream's rows."""
    return [i for share in deal(plan, stream, nodes=nodes) for i in ids_of(read_share(plan, share, 5, 0).batches)]


# --- partitions ---

_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Partitioned(Told):
    """A lake in folders of two partition columns.

    Attributes:
        folders: Of each file: its value of `number`, which may be null, and of `text`.
        chosen: Whether `data.where` selects the partitions of each file.
        held_out: Whether `data.validation.where` does.
    """

    folders: tuple[tuple[int | None, str], ...]
    chosen: tuple[bool, ...]
    held_out: tuple[bool, ...]
    files: tuple[FileShape, ...]
    nodes: int
    shuffle: bool


@st.composite
def partitioned(draw: DrawFn) -> Partitioned:
    """Draws partitions with and without rows."""
    count = draw(st.integers(1, 5))
    number = st.sampled_from([0, 1, -5, 2**31 - 1, -(2**31), 2**31, 2**63 - 1])
    # Text alone: whether a value such as `1e3` or `NaN` is text, docs/use/data.md does not say for all.
    text = st.text(st.sampled_from(" %/=:é日'\"\\#?*"), max_size=3).map(lambda tail: f"v{tail}w")
    folders = draw(st.lists(st.tuples(st.none() | number, text), min_size=count, max_size=count, unique_by=repr))
    if all(number is None for number, _ in folders):
        folders[0] = (7, folders[0][1])  # whose type would nobody know
    flags = st.lists(st.booleans(), min_size=count, max_size=count).map(tuple)
    shapes = [draw(file_shapes([ID])) for _ in folders]
    return Partitioned(
        tuple(folders), draw(flags), draw(flags), tuple(shapes), draw(st.integers(1, 3)), draw(st.booleans())
    )


def escaped(text: str) -> str:
    """Returns a value as Spark writes it into a folder's name."""
    return "".join(f"%{ord(sign):02X}" if sign in "\"#%'*/:=?\\" else sign for sign in text)


@cases(partitioned())
def test_partitions_are_columns_and_choose_rows(case: Partitioned, new_folder: NewFolder) -> None:
    folder = new_folder()
    wanted: dict[int, tuple[int, bytes]] = {}
    streams: dict[bool, set[int]] = {True: set(), False: set()}
    paths = {}
    files = zip(case.folders, case.files, case.chosen, case.held_out, strict=True)
    for i, ((number, text), shape, chosen, held_out) in enumerate(files):
        name = _NULL if number is None else str(number)
        path = folder / f"number={name}" / f"text={escaped(text)}" / f"{i}.parquet"
        ids = range(1000 * i, 1000 * i + shape.rows)
        write(path, shape, (ID,), [{"id": row} for row in ids])
        paths[(number, text)] = (chosen, held_out)
        wanted |= {row: (-1 if number is None else number, text.encode()) for row in ids}
        if chosen:
            streams[held_out].update(ids)
    config = lake_config(
        folder,
        shuffle=case.shuffle,
        where="chosen",
        validation={"where": "held out"},
        inputs={"id": "id", "number": {"columns": "number", "dtype": "int64"}, "text": "text"},
        targets={"y": "id"},
        fill_null={"number": -1},
    )

    def choose(names: Any, types: Any, rows: Any, predicate: str) -> list[bool]:
        assert list(names) == ["number", "text"]
        kind = "bigint" if any(n is not None and not -(2**31) <= n < 2**31 for n, _ in case.folders) else "int"
        assert list(types) == [kind, "string"]
        return [paths[row][predicate == "held out"] for row in rows]

    if not streams[True] or not streams[False]:
        with pytest.raises(EmptySourceError):
            plan_source(config, open_storage, choose)
        return
    plan = plan_source(config, open_storage, choose)
    for stream, is_held_out in ((Stream.TRAIN, False), (Stream.VALIDATION, True)):
        batches = [
            batch for share in deal(plan, stream, nodes=case.nodes) for batch in read_share(plan, share, 5, 0).batches
        ]
        assert sorted(ids_of(batches)) == sorted(streams[is_held_out])
        for batch in batches:
            texts = batch["input:text"]
            assert isinstance(texts, Strings)
            found = zip(np.asarray(batch["input:number"]).tolist(), texts.to_numpy().tolist(), strict=True)
            assert list(found) == [wanted[i] for i in ids_of([batch])]

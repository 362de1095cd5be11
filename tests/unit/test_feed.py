"""The feed: which rows come in which order, every dtype, every refusal. Small lakes, no Spark."""

from __future__ import annotations

import datetime
import io
import threading
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import (
    array,
    batches,
    deal,
    feed_of,
    filter_by,
    id_table,
    ids,
    plan_lake,
    rewrite,
    values,
    write_file,
    write_lake,
)

from sparktf.driver.plan.plan import Plan
from sparktf.errors import BadValueError, CorruptFileError, SourceNotFoundError, StorageError
from sparktf.feature import FeedLimits
from sparktf.feed.arrays.columns import Strings
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.formats.splits import held_out_rows
from sparktf.feed.pipeline import NodeFeed
from sparktf.sequence import Assignment, Cursor, Stream, leading, remaining
from sparktf.storage.file_systems import open_storage
from sparktf.storage.local import LocalStorage

TRAIN, VALIDATION = Stream.TRAIN, Stream.VALIDATION
ROWS = 229


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return write_lake(tmp_path / "lake")


@pytest.fixture
def plan(lake: Path) -> Plan:
    return plan_lake(lake, shuffle_rows=40, seed=3)


def read_column(folder: Path, column: Any, feature: Any = "c", **data: Any) -> Any:
    """Returns the tensor that an input of column c becomes; text as a list of bytes."""
    file = write_file(folder / "c" / "f.parquet", pa.table({"c": column, "label": pa.array([0.0] * len(column))}))
    plan = plan_lake(file.parent, inputs={"x": feature}, shuffle=False, **data)
    (batch,) = batches(plan, deal(plan)[0], rows=100)
    tensor = batch["input:x"]
    return tensor.to_numpy().tolist() if isinstance(tensor, Strings) else tensor


class TestOrder:
    @pytest.mark.parametrize("nodes", [1, 2, 3, 7])
    @pytest.mark.parametrize("rebalance", [True, False])
    def test_each_epoch_has_each_row_exactly_once(self, plan: Plan, nodes: int, rebalance: bool) -> None:
        for epoch in range(3):
            found = ids(plan, deal(plan, epoch=epoch, nodes=nodes, rebalance=rebalance))
            assert sorted(found) == list(range(ROWS))

    def test_the_order_does_not_depend_on_the_number_of_nodes(self, plan: Plan) -> None:
        assert ids(plan, deal(plan, nodes=1)) == ids(plan, deal(plan, nodes=5))

    def test_the_same_seed_gives_the_same_batches_and_another_epoch_or_seed_others(self, lake: Path) -> None:
        first, again, other = (plan_lake(lake, shuffle_rows=40, seed=seed) for seed in (3, 3, 4))
        assert ids(first, deal(first)) == ids(again, deal(again))
        assert ids(first, deal(first)) != ids(first, deal(first, epoch=1))
        assert ids(first, deal(first)) != ids(other, deal(other))

    def test_the_rows_of_a_block_are_permuted_anew_in_each_epoch(self, tmp_path: Path) -> None:
        plan = plan_lake(write_lake(tmp_path, [100]), shuffle_rows=1000)
        epochs = [ids(plan, deal(plan, epoch=epoch)) for epoch in range(3)]
        assert len(plan.block_rows(TRAIN)) == 1
        assert len({tuple(epoch) for epoch in epochs}) == 3

    def test_without_shuffling_rows_come_as_they_lie(self, lake: Path) -> None:
        plan = plan_lake(lake, shuffle=False, shuffle_rows=40)
        assert ids(plan, deal(plan, nodes=4)) == list(range(ROWS))

    def test_tensors_of_a_row_stay_together(self, plan: Plan) -> None:
        found = [batch for part in deal(plan, nodes=3) for batch in batches(plan, part, rows=17)]
        row = values(found, "input:id")
        np.testing.assert_array_equal(values(found, "input:x"), np.stack([row * 2, row * 3], axis=1))
        np.testing.assert_array_equal(values(found, "target:y"), row % 7)

    def test_unshuffled_pieces_read_only_the_row_groups_they_touch(self, tmp_path: Path) -> None:
        plan = plan_lake(write_lake(tmp_path, [160]), shuffle=False, shuffle_rows=1000)
        (assignment,) = deal(plan, intervals=[(40, 60)])
        with feed_of(plan, assignment) as feed:
            assert array(feed.next_rows(100), "input:id").tolist() == list(range(40, 60))
            assert feed.nbytes == sum(plan.tables[TRAIN].nbytes[2:4])


class TestFraction:
    def test_streams_are_disjoint_and_complete_in_every_epoch(self, lake: Path) -> None:
        plan = plan_lake(lake, shuffle_rows=40, validation={"fraction": 0.25})
        held_out = ids(plan, deal(plan, VALIDATION, nodes=2))
        assert len(held_out) == round(ROWS * 0.25)
        for epoch in range(3):
            trained = ids(plan, deal(plan, epoch=epoch, nodes=3))
            assert sorted(trained + held_out) == list(range(ROWS))

    def test_the_draw_is_the_same_for_the_same_seed_only(self, lake: Path) -> None:
        plans = [plan_lake(lake, validation={"fraction": 0.25}, seed=seed) for seed in (1, 1, 2)]
        first, again, other = (ids(plan, deal(plan, VALIDATION)) for plan in plans)
        assert first == again != other

    def test_validation_is_never_permuted(self, lake: Path) -> None:
        plan = plan_lake(lake, shuffle_rows=40, validation={"fraction": 0.5})
        found = ids(plan, deal(plan, VALIDATION, nodes=3))
        assert found == sorted(found)


class TestTake:
    def test_exact_row_counts_until_the_end_and_then_none(self, plan: Plan) -> None:
        with feed_of(plan, deal(plan)[0]) as feed:
            counts = [len(array(feed.next_rows(50), "input:id")) for _ in range(7)]
            assert counts == [50, 50, 50, 50, 29, 0, 0]
            assert feed.rows_taken == ROWS
            assert feed.wait_s > 0

    def test_an_empty_batch_has_the_right_dtypes_and_shapes(self, tmp_path: Path) -> None:
        table = pa.table({"s": ["x"], "l": pa.array([[1, 2]], pa.list_(pa.int8(), 2)), "b": [True], "y": [0.5]})
        write_file(tmp_path / "f.parquet", table)
        plan = plan_lake(tmp_path, inputs={"s": "s", "l": "l", "b": "b", "p": ["b", "y"]}, targets={"y": "y"})
        with feed_of(plan, Assignment(stream=TRAIN, epoch=0, pieces=())) as feed:
            batch = feed.next_rows(5)
        shapes = {key: (c.dtype.type, c.shape) for key, c in batch.items() if isinstance(c, np.ndarray)}
        assert shapes == {
            "input:l": (np.int8, (0, 2)),
            "input:b": (np.bool_, (0,)),
            "input:p": (np.float32, (0, 2)),
            "target:y": (np.float32, (0,)),
        }
        text = batch["input:s"]
        assert isinstance(text, Strings)
        assert len(text) == 0

    def test_no_rows_asked_for_are_no_rows(self, plan: Plan) -> None:
        with feed_of(plan, deal(plan)[0]) as feed:
            assert len(array(feed.next_rows(0), "input:id")) == 0

    def test_a_batch_may_be_written_to_and_outlives_its_block(self, plan: Plan) -> None:
        with feed_of(plan, deal(plan)[0]) as feed:
            first = array(feed.next_rows(10), "input:x")
            kept = first.copy()
            while len(array(batch := feed.next_rows(10), "input:id")):
                array(batch, "input:x")[:] = -1
        np.testing.assert_array_equal(first, kept)

    def test_a_closed_feed_gives_nothing(self, plan: Plan) -> None:
        feed = feed_of(plan, deal(plan)[0])
        feed.close()
        with pytest.raises(ValueError, match="the feed is closed"):
            feed.next_rows(1)

    def test_reading_ahead_is_bounded_and_close_ends_the_thread(self, lake: Path) -> None:
        plan = plan_lake(lake, shuffle_rows=40)
        parts = PlannedParts(plan.spec, deal(plan)[0], open_storage)
        feed = NodeFeed(plan.spec, parts, limits=FeedLimits(prefetch_bytes=1))
        feed.next_rows(1)
        time.sleep(0.1)
        first_blocks = plan.tables[TRAIN].nbytes.max() * 3 * 3
        assert 0 < feed.nbytes <= first_blocks < plan.nbytes(TRAIN)
        feed.close()
        assert not [thread for thread in threading.enumerate() if thread.name == "feed-train"]

    def test_a_bound_below_one_block_still_reads_all(self, plan: Plan) -> None:
        parts = PlannedParts(plan.spec, deal(plan)[0], open_storage)
        with NodeFeed(plan.spec, parts, limits=FeedLimits(prefetch_bytes=1)) as feed:
            assert sorted(array(feed.next_rows(1000), "input:id").tolist()) == list(range(ROWS))


class TestResume:
    @pytest.mark.parametrize("shuffle", [True, False])
    @pytest.mark.parametrize("nodes_after", [1, 3])
    def test_at_every_batch_boundary_the_rest_comes_exactly_once(
        self, lake: Path, shuffle: bool, nodes_after: int
    ) -> None:
        plan = plan_lake(lake, shuffle_rows=64, shuffle=shuffle)
        before = deal(plan, epoch=1, nodes=2)
        seen = [ids(plan, [part]) for part in before]
        for taken in range(0, 116, 23):
            counts = [min(taken, part.rows) for part in before]
            cursor = Cursor(epoch=1)
            for part, count in zip(before, counts, strict=True):
                cursor = cursor.advance(leading(part.intervals, count))
            rest = deal(plan, epoch=1, nodes=nodes_after, intervals=remaining(plan.rows(TRAIN), cursor.done))
            done = [i for rows, count in zip(seen, counts, strict=True) for i in rows[:count]]
            assert Counter(done + ids(plan, rest)) == Counter(range(ROWS))

    def test_one_node_goes_on_with_the_very_rows_that_would_have_come(self, plan: Plan) -> None:
        (whole,) = deal(plan)
        order = ids(plan, [whole])
        for taken in range(0, ROWS + 1, 38):
            left = remaining(ROWS, leading(whole.intervals, taken))
            assert ids(plan, deal(plan, intervals=left)) == order[taken:]


DAY = datetime.date(2026, 11, 20)
NOON = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
NOON_US = int(NOON.timestamp()) * 1_000_000


class TestTypes:
    @pytest.mark.parametrize(
        ("column", "dtype", "expected"),
        [
            (pa.array([True, False]), "bool", [True, False]),
            (pa.array([-1, 2], pa.int8()), "int8", [-1, 2]),
            (pa.array([-1, 2], pa.int16()), "int16", [-1, 2]),
            (pa.array([-1, 2], pa.int32()), "int32", [-1, 2]),
            (pa.array([-1, 1 << 60], pa.int64()), "int64", [-1, 1 << 60]),
            (pa.array([255], pa.uint8()), "int16", [255]),
            (pa.array([65535], pa.uint16()), "int32", [65535]),
            (pa.array([(1 << 32) - 1], pa.uint32()), "int64", [(1 << 32) - 1]),
            (pa.array([0.5, 1.5], pa.float32()), "float32", [0.5, 1.5]),
            (pa.array([0.5, 1.5], pa.float64()), "float32", [0.5, 1.5]),
            (pa.array([DAY]), "int32", [DAY.toordinal() - datetime.date(1970, 1, 1).toordinal()]),
            (pa.array([NOON], pa.timestamp("ms", "UTC")), "int64", [NOON_US]),
            (pa.array([NOON], pa.timestamp("ns", "UTC")), "int64", [NOON_US]),
            (pa.array([NOON.replace(tzinfo=None)], pa.timestamp("us")), "int64", [NOON_US]),
            (pa.array([datetime.time(0, 1)], pa.time32("ms")), "int64", [60_000_000]),
            (pa.array([datetime.time(0, 1)], pa.time64("ns")), "int64", [60_000_000]),
            (pa.array([datetime.timedelta(seconds=-1)], pa.duration("ms")), "int64", [-1_000]),
            (pa.array([3, 4, 3]).dictionary_encode(), "int64", [3, 4, 3]),
            (pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)), "int8", [[1, 2], [3, 4]]),
            (pa.array([[1, 2], [3, 4]], pa.list_(pa.float64(), 2)), "float32", [[1, 2], [3, 4]]),
        ],
    )
    def test_numbers(self, tmp_path: Path, column: pa.Array, dtype: str, expected: list[Any]) -> None:
        tensor = read_column(tmp_path, column)
        assert tensor.dtype == dtype
        assert tensor.tolist() == expected

    @pytest.mark.parametrize(
        "column",
        [
            pa.array(["ä", "", "ä"]),
            pa.array(["ä", "", "ä"]).dictionary_encode(),
            pa.array(["ä", "", "ä"], pa.large_string()),
            pa.array(["ä".encode(), b"", "ä".encode()]),
        ],
    )
    def test_text(self, tmp_path: Path, column: pa.Array) -> None:
        assert read_column(tmp_path, column) == ["ä".encode(), b"", "ä".encode()]

    def test_text_stays_with_its_row_over_splits_blocks_and_batches(self, tmp_path: Path) -> None:
        for i in range(3):
            table = id_table(40 * i, 40)
            text = pa.array([f"row {row}" if row % 3 else "same" for row in table["id"].to_pylist()])
            write_file(tmp_path / f"{i}.parquet", table.append_column("s", text), group_rows=16)
        plan = plan_lake(tmp_path, inputs={"id": "id", "s": "s"}, shuffle_rows=32, validation={"fraction": 0.1})
        for batch in batches(plan, deal(plan)[0], rows=25):
            text = batch["input:s"]
            assert isinstance(text, Strings)
            assert len(set(text.values)) == len(text.values)
            expected = [f"row {row}" if row % 3 else "same" for row in array(batch, "input:id")]
            assert [value.decode() for value in text.to_numpy()] == expected

    def test_variable_lists_of_one_length_take_their_shape(self, tmp_path: Path) -> None:
        column = pa.array([[1, 2, 3, 4], [5, 6, 7, 8]], pa.large_list(pa.int32()))
        tensor = read_column(tmp_path, column, {"columns": "c", "shape": [2, 2]})
        assert tensor.tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]

    @pytest.mark.parametrize(("dtype", "expected"), [("float32", 2.5), ("float64", 2.5)])
    def test_decimals_are_rounded_on_request(self, tmp_path: Path, dtype: str, expected: float) -> None:
        tensor = read_column(tmp_path, pa.array([Decimal("2.50")]), {"columns": "c", "dtype": dtype})
        assert (tensor.dtype, tensor.tolist()) == (dtype, [expected])

    @pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
    def test_casts(self, tmp_path: Path, dtype: str) -> None:
        tensor = read_column(tmp_path, pa.array([0.0, 7.0]), {"columns": "c", "dtype": dtype})
        assert (tensor.dtype, tensor.tolist()) == (dtype, [0, 7])

    def test_packing_mixes_types(self, tmp_path: Path) -> None:
        table = pa.table({"i": [1, 2], "b": [True, False], "d": [0.5, 1.5], "t": pa.array([DAY, DAY]), "label": [0, 0]})
        write_file(tmp_path / "f.parquet", table)
        plan = plan_lake(tmp_path, inputs={"x": ["i", "b", "d"]}, shuffle=False)
        (batch,) = batches(plan, deal(plan)[0])
        assert array(batch, "input:x").dtype == np.float32
        assert array(batch, "input:x").tolist() == [[1, 1, 0.5], [2, 0, 1.5]]

    def test_partition_columns_are_columns(self, tmp_path: Path) -> None:
        for i, folder in enumerate(["n=1/d=2026-11-20/s=x/f=0.5", "n=2/d=2026-11-21/s=__HIVE_DEFAULT_PARTITION__/f=2"]):
            write_file(tmp_path / folder / "f.parquet", id_table(10 * i, 10), group_rows=4)
        inputs = {"id": "id", "n": "n", "d": "d", "s": "s", "f": "f", "p": ["n", "f"]}
        plan = plan_lake(tmp_path, inputs=inputs, fill_null={"s": "none"}, validation={"fraction": 0.3})
        for batch in batches(plan, deal(plan)[0], rows=7):
            first = array(batch, "input:id") < 10
            assert array(batch, "input:n").tolist() == np.where(first, 1, 2).tolist()
            assert array(batch, "input:f").tolist() == np.where(first, 0.5, 2).tolist()
            assert (np.diff(np.unique(array(batch, "input:d"))) <= 1).all()
            np.testing.assert_array_equal(array(batch, "input:p"), np.where(first[:, None], [1, 0.5], [2, 2]))
            text = batch["input:s"]
            assert isinstance(text, Strings)
            assert text.to_numpy().tolist() == [b"x" if is_first else b"none" for is_first in first]

    def test_only_partition_columns(self, tmp_path: Path) -> None:
        write_file(tmp_path / "n=1/y=2" / "f.parquet", id_table(0, 3))
        plan = plan_lake(tmp_path, inputs={"n": "n"}, targets={"y": "y"})
        (batch,) = batches(plan, deal(plan)[0])
        assert array(batch, "input:n").tolist() == [1, 1, 1]

    def test_where_and_partition_columns_go_together(self, tmp_path: Path) -> None:
        for n in range(3):
            write_file(tmp_path / f"n={n}" / "f.parquet", id_table(10 * n, 10))
        plan = plan_lake(tmp_path, filter_by(lambda n: n == 2), where="n = 2", inputs={"id": "id", "n": "n"})
        assert sorted(ids(plan, deal(plan))) == list(range(20, 30))


class TestFillNull:
    @pytest.mark.parametrize(
        ("column", "fill", "expected"),
        [
            (pa.array([1.5, None]), -1, [1.5, -1]),
            (pa.array([1, None], pa.int16()), 7, [1, 7]),
            (pa.array([1, None], pa.int16()), 7.0, [1, 7]),
            (pa.array([None, True]), False, [False, True]),
            (pa.array(["x", None]), "?", [b"x", b"?"]),
            (pa.array(["x", None]).dictionary_encode(), "?", [b"x", b"?"]),
            (pa.array([None, DAY]), "1970-01-02", [1, (DAY - datetime.date(1970, 1, 1)).days]),
        ],
    )
    def test_takes_the_place_of_null(self, tmp_path: Path, column: pa.Array, fill: Any, expected: list[Any]) -> None:
        tensor = read_column(tmp_path, column, fill_null={"c": fill})
        assert list(tensor) == expected

    def test_may_be_any_whole_number_of_the_type(self, tmp_path: Path) -> None:
        column = pa.array([1, None], pa.uint64())
        feature = {"columns": "c", "dtype": "float64"}
        assert list(read_column(tmp_path, column, feature, fill_null={"c": 2**64 - 1})) == [1, float(2**64)]


class TestRefusals:
    """Bad values sit in the second row group: the row is counted from the start of the file."""

    def refuse(self, folder: Path, column: pa.Array, feature: Any = "c", **data: Any) -> str:
        zeros = pa.array([0.0] * len(column))
        write_file(folder / "f.parquet", pa.table({"c": column, "z": zeros}), group_rows=4)
        kwargs = {"inputs": {"x": feature}, "targets": {"y": "z"}, **data}
        plan = plan_lake(folder, shuffle=False, **kwargs)
        with pytest.raises(BadValueError) as caught:
            batches(plan, deal(plan)[0])
        assert str(caught.value).startswith(f"{folder / 'f.parquet'}: ")
        return str(caught.value).partition(": ")[2]

    def test_null(self, tmp_path: Path) -> None:
        column = pa.array([1, 2, 3, 4, 5, None, 7])
        message = "column 'c', row 5: null; set data.fill_null.c to the value to use instead"
        assert self.refuse(tmp_path, column) == message
        assert self.refuse(tmp_path, column, validation={"fraction": 0.3}) == message

    def test_null_text(self, tmp_path: Path) -> None:
        column = pa.array(["x"] * 6 + [None])
        assert self.refuse(tmp_path, column).startswith("column 'c', row 6: null")

    def test_nan_label(self, tmp_path: Path) -> None:
        column = pa.array([1.0, 2, 3, 4, 5, 6, float("nan")])
        found = self.refuse(tmp_path, column, inputs={"x": "z"}, targets={"y": "c"})
        assert found == "column 'c', row 6: nan cannot be a target"

    def test_nan_in_a_packed_target_names_its_column(self, tmp_path: Path) -> None:
        column = pa.array([1.0, 2, 3, 4, float("inf")])
        found = self.refuse(tmp_path, column, inputs={"x": "z"}, targets={"y": ["z", "c"]})
        assert found == "column 'c', row 4: inf cannot be a target"

    def test_a_label_beyond_float32(self, tmp_path: Path) -> None:
        found = self.refuse(tmp_path, pa.array([0.0] * 5 + [1e300]), inputs={"x": "z"}, targets={"y": "c"})
        assert found == "column 'c', row 5: inf cannot be a target"

    def test_a_row_is_named_right_where_a_fraction_is_held_out(self, tmp_path: Path) -> None:
        column = pa.array([0.0] * 16 + [float("nan")] * 4 + [0.0] * 30)
        data: dict[str, Any] = {"inputs": {"x": "z"}, "targets": {"y": "c"}, "validation": {"fraction": 0.2}}
        found = self.refuse(tmp_path, column, **data)
        split = next(s for p in deal(plan_lake(tmp_path, **data))[0].pieces for s in p.splits if s.row_group == 4)
        first_kept = min(set(range(4)).difference(held_out_rows(split, 0).tolist()))
        assert found == f"column 'c', row {16 + first_kept}: nan cannot be a target"

    @pytest.mark.parametrize("weight", [-0.5, float("nan")])
    def test_weights(self, tmp_path: Path, weight: float) -> None:
        column = pa.array([1.0, 0.0, 2.0, 1.0, weight])
        found = self.refuse(tmp_path, column, "z", sample_weight="c")
        assert found == f"column 'c', row 4: {weight} cannot be a weight"

    def test_a_ragged_list(self, tmp_path: Path) -> None:
        column = pa.array([[1, 2]] * 5 + [[3]], pa.list_(pa.int32()))
        found = self.refuse(tmp_path, column, {"columns": "c", "shape": [2]})
        assert found == "column 'c', row 5: a list of 1 values, not 2"

    def test_a_null_within_a_list(self, tmp_path: Path) -> None:
        column = pa.array([[1, 2]] * 5 + [[3, None]], pa.list_(pa.int32()))
        found = self.refuse(tmp_path, column, {"columns": "c", "shape": [2]})
        assert found.startswith("column 'c', row 5: a null within the list; set data.fill_null.c to the value")

    def test_a_null_list(self, tmp_path: Path) -> None:
        column = pa.array([[1, 2]] * 5 + [None], pa.list_(pa.int32(), 2))
        assert self.refuse(tmp_path, column).startswith("column 'c', row 5: null")

    @pytest.mark.parametrize(
        ("column", "dtype", "value"),
        [
            (pa.array([1, 2, 3, 4, 300]), "int8", "300"),
            (pa.array([1, 2, 3, 4, -1]), "uint16", "-1"),
            (pa.array([1.0, 2, 3, 4, 0.5]), "int32", "0.5"),
            (pa.array([1.0, 2, 3, 4, float("nan")]), "int64", "nan"),
            (pa.array([1, 0, 0, 1, 2]), "bool", "2"),
        ],
    )
    def test_a_cast_that_would_change_a_value(self, tmp_path: Path, column: pa.Array, dtype: str, value: str) -> None:
        found = self.refuse(tmp_path, column, {"columns": "c", "dtype": dtype})
        assert found == f"column 'c', row 4: {value} does not fit dtype {dtype} of input:x"

    def test_nan_in_an_input_passes(self, tmp_path: Path) -> None:
        assert np.isnan(read_column(tmp_path, pa.array([1.0, float("nan")]))).tolist() == [False, True]


class TestFiles:
    def test_a_corrupt_page_names_the_file(self, tmp_path: Path) -> None:
        table = pa.table({"c": np.random.default_rng(0).random(5000), "label": np.zeros(5000)})
        file = tmp_path / "f.parquet"
        pq.write_table(table, file, write_page_checksum=True)
        plan = plan_lake(tmp_path, inputs={"x": "c"})
        content = bytearray(file.read_bytes())
        content[2000:2100] = bytes(100)
        rewrite(file, bytes(content))
        with pytest.raises(CorruptFileError, match=r"f\.parquet is not a readable Parquet file: .*CRC"):
            batches(plan, deal(plan)[0])

    def test_a_file_that_is_gone(self, plan: Plan, lake: Path) -> None:
        (lake / "part-03.parquet").unlink()
        with pytest.raises(SourceNotFoundError, match=r"part-03\.parquet was deleted after the plan was made"):
            batches(plan, deal(plan)[0])

    @pytest.mark.parametrize("rows", [119, 121, 10])
    def test_a_file_that_has_changed(self, plan: Plan, lake: Path, rows: int) -> None:
        write_file(lake / "part-03.parquet", id_table(0, rows), group_rows=16)
        with pytest.raises(CorruptFileError, match=r"part-03\.parquet has changed since it was planned"):
            batches(plan, deal(plan)[0])

    def test_rows_before_the_bad_file_still_come(self, lake: Path) -> None:
        plan = plan_lake(lake, shuffle=False, shuffle_rows=40)
        (lake / "part-04.parquet").unlink()
        with feed_of(plan, deal(plan)[0]) as feed:
            for _ in range(17):
                assert len(array(feed.next_rows(10), "input:id")) == 10
            with pytest.raises(SourceNotFoundError):
                for _ in range(6):
                    feed.next_rows(10)

    def test_a_storage_that_fails_is_no_corrupt_file(self, plan: Plan) -> None:
        class Failing(io.BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                raise StorageError("the namenode is away")

        class FailingStorage(LocalStorage):
            def open(self, path: str) -> io.BytesIO:
                return Failing(Path(path).read_bytes())

        with (
            NodeFeed(plan.spec, PlannedParts(plan.spec, deal(plan)[0], lambda path: FailingStorage())) as feed,
            pytest.raises(StorageError, match="the namenode is away"),
        ):
            feed.next_rows(1)

    def test_a_remote_file_is_read_through_its_stream(self, plan: Plan) -> None:
        class Remote(LocalStorage):
            def open(self, path: str) -> io.BytesIO:
                return io.BytesIO(Path(path).read_bytes())

        with NodeFeed(plan.spec, PlannedParts(plan.spec, deal(plan)[0], lambda path: Remote())) as feed:
            assert sorted(array(feed.next_rows(1000), "input:id").tolist()) == list(range(ROWS))

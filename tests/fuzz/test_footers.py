"""Footers that tell of other rows than there are: refused, or set aside, and never trained on as something else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzz.cases import NewFolder, cases
from fuzz.cells import Told
from fuzz.reading import ids_of, read_share
from hypothesis import strategies as st
from lakes import deal, lake_config, no_filter
from parquet_footers import key_column, name_algorithm, tell_rows

from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.plan.planner import plan_source
from sparktf.errors import CorruptFileError
from sparktf.storage.file_systems import open_storage

_IMPOSSIBLE = (-1, -(2**40), 2**31, 2**50, 2**63 - 1)


@dataclass(frozen=True)
class Footer(Told):
    """A file, and what its footer says.

    Attributes:
        rows: That there are.
        told: By the footer.
        before: Rows of another file, which is as it should be.
        options: Of `pyarrow.parquet.write_table`.
    """

    rows: int
    told: int
    before: int
    sets_aside: bool
    options: dict[str, Any]


footers = st.builds(
    Footer,
    rows=st.integers(13, 60),
    told=st.integers(1, 200) | st.sampled_from(_IMPOSSIBLE),
    before=st.integers(0, 5),
    sets_aside=st.booleans(),
    options=st.fixed_dictionaries(
        {
            "use_dictionary": st.booleans(),
            "data_page_version": st.sampled_from(("1.0", "2.0")),
            "compression": st.sampled_from(("none", "snappy")),
        }
    ),
)


@cases(footers)
def test_rows_that_are_not_there_are_refused_or_set_aside(case: Footer, new_folder: NewFolder) -> None:
    folder = new_folder()
    ids = list(range(case.before + case.rows))
    for name, part in (("0", ids[: case.before]), ("1", ids[case.before :])):
        path = folder / f"{name}.parquet"
        pq.write_table(pa.table({"id": pa.array(part, pa.int64())}), path, write_statistics=False, **case.options)
    if case.told != case.rows:
        tell_rows(folder / "1.parquet", case.rows, case.told)
    config = lake_config(folder, shuffle=False, inputs={"id": "id"}, targets={"y": "id"})
    if case.told in _IMPOSSIBLE:
        with pytest.raises(CorruptFileError, match=r"1\.parquet is not a readable Parquet file: .*rows"):
            plan_source(config, open_storage, no_filter)
        return
    plan = plan_source(config, open_storage, no_filter)
    (share,) = deal(plan)
    if case.told > case.rows and not case.sets_aside:
        with pytest.raises(CorruptFileError, match=rf"1\.parquet .* {case.told} rows by its footer"):
            read_share(plan, share, 7, 0)
        return
    read = read_share(plan, share, 7, case.told if case.told > case.rows else 0)
    # Of more rows than its footer says, Spark reads as many as that.
    there = min(case.told, case.rows) if case.told <= case.rows else 0
    assert ids_of(read.batches) == ids[: case.before + there]
    assert read.aside == (case.told if case.told > case.rows else 0)


@dataclass(frozen=True)
class Encrypted(Told):
    """What a footer says of encryption, without a signature behind it.

    Attributes:
        algorithm: Whether the file's is named, with its number behind its kind (True) or before it.
        names: Of the column that a chunk's key is for; None where there is no such key.
        texts: In the file, whose greatest and least stand in the footer.
    """

    algorithm: bool | None
    names: list[str] | None
    with_footer_key: bool
    key: bytes
    texts: list[bytes]


_KEY_LIKE = st.lists(
    st.sampled_from((b"\x5c", b"\x2c", b"\x1c", b"\x19", b"\0", b"\x18", b"\xf8", b"\x7f")), max_size=24
)

encrypted = st.builds(
    Encrypted,
    algorithm=st.sampled_from((None, False, True)),
    names=st.none() | st.lists(st.text("ab", max_size=200), max_size=300),
    with_footer_key=st.booleans(),
    key=st.binary(max_size=200),
    texts=st.lists(_KEY_LIKE.map(b"".join), min_size=1, max_size=8),
)


@cases(encrypted)
def test_encrypted_columns_go_through_spark_and_bytes_like_them_do_not(case: Encrypted, new_folder: NewFolder) -> None:
    folder = new_folder()
    file = folder / "f.parquet"
    ids = pa.array(range(len(case.texts)), pa.int64())
    pq.write_table(pa.table({"text": pa.array(case.texts, pa.binary()), "id": ids}), file, store_schema=False)
    if case.names is not None:
        key_column(file, case.names, with_footer_key=case.with_footer_key, key=case.key)
    if case.algorithm is not None:
        name_algorithm(file, is_long=case.algorithm)
    config = lake_config(folder, shuffle=False, inputs={"id": "id", "text": "text"}, targets={"y": "id"})
    if case.names is None and case.algorithm is None:
        plan = plan_source(config, open_storage, no_filter)
        assert ids_of(read_share(plan, deal(plan)[0], 7, 0).batches) == ids.to_pylist()
        return
    with pytest.raises(NotPlainError, match=r"f\.parquet cannot be read by trainers: it has encrypted columns$"):
        plan_source(config, open_storage, no_filter)

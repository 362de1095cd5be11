"""Trained on what is nested, of uneven length and missing, as plain Keras trains on the same values."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from split import only
from trainer import lake, reference
from trainer.local_gang import LocalGang

from sparktf.config.job import JobConfig
from sparktf.errors import ModelContractError

TAGS = ["old", "new"]
PLACES = 5
SHARDED = {"shards": 2, "optimizer": "Adam"}


def write_people(folder: Path, count: int) -> list[dict[str, Any]]:
    """Writes rows whose struct `who`, its age, its words and its tags may each be null; returns them."""
    draw = np.random.default_rng(5)

    def person(i: int) -> dict[str, Any] | None:
        words = draw.integers(1, lake.WORDS, draw.integers(0, PLACES + 3)).tolist()
        tags = draw.choice(TAGS, draw.integers(0, 3)).tolist()
        age = None if i % 4 == 1 else float(draw.normal())
        return None if i % 7 == 3 else {"age": age, "has": {"words": words, "tags": None if i % 5 == 2 else tags}}

    rows = [{"who": person(i), "label": int(draw.integers(0, lake.CLASSES))} for i in range(count)]
    folder.mkdir()
    kind = pa.struct({"words": pa.list_(pa.int32()), "tags": pa.list_(pa.string())})
    schema = pa.schema({"who": pa.struct({"age": pa.float64(), "has": kind}), "label": pa.int64()})
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / "f.parquet", row_group_size=30)
    return rows


def inputs_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns what the configuration below should make of the rows, value by value."""
    people = [row["who"] or {"age": None, "has": None} for row in rows]
    ages = [person["age"] for person in people]
    words = [((person["has"] or {}).get("words") or [])[:PLACES] for person in people]
    tags = [(person["has"] or {}).get("tags") or [] for person in people]
    return {
        "age": np.array([-0.5 if age is None else age for age in ages], np.float32),
        "age_known": np.array([age is not None for age in ages]),
        "words": np.array([row + [0] * (PLACES - len(row)) for row in words], np.int32),
        "words_there": np.array([[i < len(row) for i in range(PLACES)] for row in words]),
        "tags": np.array([row + [""] * (2 - len(row)) for row in tags], object)[:, :, None],
    }


@pytest.mark.parametrize("flavour", only("keras", of=["keras", "tf_keras"]))
def test_structs_lists_and_masks_train_as_plain_keras_does(
    flavour: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = {"tags": TAGS}
    monkeypatch.setattr(gang, "assets", assets)
    rows = write_people(tmp_path / "lake", 100)
    config = lake.job(
        tmp_path,
        "nested",
        workers=2,
        params={"flavour": flavour},
        data={
            "inputs": {
                "age": {"columns": "who.age", "mask": "age_known"},
                "words": {
                    "columns": "who.has.words",
                    "shape": [PLACES],
                    "pad": 0,
                    "truncate": True,
                    "mask": "words_there",
                },
                "tags": {"columns": "who.has.tags", "shape": [2, 1], "pad": ""},
            },
            "targets": {"label": "label"},
            "fill_null": {"who.age": -0.5, "who.has.tags": ""},
        },
        train={"batch_size": 100, "epochs": 3},
    )
    result = gang.train(config)
    assert [(epoch.planned, epoch.trained) for epoch in result.rows] == [(100, 100)] * 3
    labels = np.array([row["label"] for row in rows])
    difference, served = elsewhere.submit(
        reference.compare_batches, config, assets, inputs_of(rows), labels, result.model
    ).result()
    assert difference <= 1e-5
    assert served <= 1e-6


@pytest.mark.parametrize(
    ("flavour", "workers", "table", "collectives"),
    only(
        ("tf_keras", 2, {}, "auto"),
        ("keras", 2, SHARDED, "auto"),
        of=[
            (flavour, *how)
            for flavour in ("keras", "tf_keras")
            for how in ((2, {}, "auto"), (2, {}, "tensorflow"), (2, SHARDED, "auto"), (1, SHARDED, "auto"))
        ],
    ),
)
def test_lists_of_any_length_train_and_serve_as_ragged_tensors(
    flavour: str,
    workers: int,
    table: dict[str, Any],
    collectives: str,
    tmp_path: Path,
    gang: LocalGang,
    elsewhere: ProcessPoolExecutor,
) -> None:
    words, tags, labels, config = write_lists(tmp_path, workers, {"flavour": flavour, **table}, collectives)
    result = gang.train(config)
    assert [(epoch.planned, epoch.trained) for epoch in result.rows] == [(100, 100)] * 3
    difference, served = elsewhere.submit(
        reference.compare_batches, config, {}, {"words": words, "tags": tags}, labels, result.model
    ).result()
    assert difference <= 1e-5
    assert served <= 1e-6
    # Before anybody sees them, they are served to a process that does not know the model's code.
    assert Path(result.model, "predictions.npz").exists() == bool(table)


def test_rows_of_a_table_for_lists_of_any_length_are_refused_over_tensorflows_collectives(
    tmp_path: Path, gang: LocalGang
) -> None:
    *_, config = write_lists(tmp_path, 2, {"flavour": "keras", "shards": 2}, "tensorflow")
    with pytest.raises(ModelContractError, match=r"beside the ragged input 'words' .* or cluster.collectives to"):
        gang.train(config)


def write_lists(
    folder: Path, workers: int, params: dict[str, Any], collectives: str
) -> tuple[list[Any], list[Any], Any, JobConfig]:
    """Writes a lake of lists; returns words, tags, labels, and the configuration of a run over them."""
    draw = np.random.default_rng(7)
    words = [draw.integers(0, lake.WORDS, n).astype(np.int32) for n in draw.integers(0, 9, 100)]
    tags = [draw.choice(TAGS, n).astype(object) for n in draw.integers(0, 3, 100)]
    labels = draw.integers(0, lake.CLASSES, 100)
    table = pa.table({"words": pa.array(words, pa.list_(pa.int32())), "tags": tags, "label": labels})
    (folder / "lake").mkdir()
    pq.write_table(table, folder / "lake/f.parquet", row_group_size=30)
    config = lake.job(
        folder,
        "ragged",
        workers=workers,
        params=params,
        data={
            "inputs": {"words": {"columns": "words", "ragged": True}, "tags": {"columns": "tags", "ragged": True}},
            "targets": {"label": "label"},
            "validation": {"path": str(folder / "lake")},
        },
        train={"batch_size": 100, "epochs": 3},
        cluster={"collectives": collectives},
        publish={} if "shards" in params else None,
    )
    return words, tags, labels, config


def test_a_low_level_loop_gets_ragged_tensors(tmp_path: Path, gang: LocalGang) -> None:
    draw = np.random.default_rng(8)
    rows = [[i, draw.integers(0, 99, i % 4).tolist(), draw.choice(TAGS, i % 3).tolist()] for i in range(70)]
    kinds = {"row": pa.int64(), "words": pa.list_(pa.int32()), "tags": pa.list_(pa.string())}
    columns = {name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(kinds.items())}
    (tmp_path / "lake").mkdir()
    pq.write_table(pa.table({**columns, "label": [0] * 70}), tmp_path / "lake/f.parquet", row_group_size=20)
    (tmp_path / "diary").mkdir()
    lists = {name: {"columns": name, "ragged": True} for name in ("words", "tags")}
    config = lake.job(
        tmp_path,
        "spell",
        workers=2,
        params={"diary": str(tmp_path / "diary")},
        data={"inputs": {"row": "row", **lists}, "targets": {"label": "label"}},
        train={"batch_size": 16},
    )
    gang.train(config)
    lines = [json.loads(line) for file in (tmp_path / "diary").iterdir() for line in file.read_text().splitlines()]
    assert sorted(lines) == rows

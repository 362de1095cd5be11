"""Runs that begin with the weights of another run's model."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pretend import unmeasured
from split import only
from trainer import begun, lake, reference, strangers
from trainer.local_gang import LocalGang

from sparktf.clock import SystemClock
from sparktf.config.job import JobConfig
from sparktf.errors import ModelContractError, Verdict
from sparktf.nightly.night import Night
from sparktf.results.carried import CarriedVariable
from sparktf.results.result import RunResult
from sparktf.storage.file_systems import FileSystems

TWO_WORKERS = {"strategy": "multi_worker_mirrored", "workers": 2}
ONE_PROCESS = {"strategy": "single"}
SERVED = {"strategy": "parameter_server", "workers": 1, "ps": 2}

FIRST: dict[str, Any] = {"colours": ["red", "green", "blue"], "items": list(range(lake.ITEMS))}
SECOND: dict[str, Any] = {"colours": ["grey", "blue", "red"], "items": [3, 99, 12, 7]}
"""Green and most items are gone, grey and an item are new, and none is where it was."""


def night(
    folder: Path, name: str, cluster: dict[str, Any], params: dict[str, Any], *, held_out: bool = False, **train: Any
) -> JobConfig:
    inputs = {"colour": "colour", "item": "item", "numbers": lake.NUMBERS}
    validation = {"validation": {"path": str(folder / "lake")}} if held_out else {}
    return lake.job(
        folder,
        "carried",
        name=name,
        cluster=cluster,
        params={"optimizer": "Adam", **params},
        data={"inputs": inputs, "targets": {"label": "label"}, **validation},
        train={"batch_size": 64, **train},
    )


def hooks() -> Night:
    return Night(FileSystems(), SystemClock(), unmeasured)


def assert_rows(ours: Any, theirs: Any, moved: dict[int, int], new: list[int]) -> None:
    """Checks rows of a table: those taken over are theirs, the new ones are Keras's own small numbers."""
    for here, there in moved.items():
        np.testing.assert_array_equal(ours[here], theirs[there])
    assert np.abs(ours[new]).max() <= 0.05
    assert np.abs(ours[new]).min() > 0


FIRST_AT = 14
"""Updates of the run that others begin from."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, gang: LocalGang) -> RunResult:
    """A run of two workers that others begin from."""
    folder = tmp_path_factory.mktemp("trained")
    lake.write(folder / "lake", [300, 100])
    gang.assets = FIRST
    return gang.train(night(folder, "first", TWO_WORKERS, {"flavour": "keras", "shards": 3}, epochs=2), hooks())


@pytest.mark.parametrize(
    ("flavour", "first", "others", "more"),
    [
        ("keras", None, [SERVED], {}),
        pytest.param("keras", None, [ONE_PROCESS], {}, marks=pytest.mark.more),
        pytest.param("tf_keras", SERVED, [TWO_WORKERS], {}, marks=pytest.mark.more),
        ("keras", ONE_PROCESS, [ONE_PROCESS], {"lambda": True}),
    ],
    ids=["keras", "keras in one process", "tf_keras", "what Keras does not load"],
)
def test_a_run_begins_with_another_ones_weights_and_its_tables_entry_by_entry(
    flavour: str,
    first: dict[str, Any] | None,
    others: list[dict[str, Any]],
    more: dict[str, Any],
    tmp_path: Path,
    gang: LocalGang,
    trained: RunResult,
    elsewhere: ProcessPoolExecutor,
) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    gang.assets = FIRST
    params = {"flavour": flavour, "shards": 3, **more}
    source = trained if first is None else gang.train(night(tmp_path, "first", first, params, epochs=2), hooks())
    assert source.steps == FIRST_AT
    theirs = elsewhere.submit(reference.weights_by_layer, source.model, unsafe=bool(more)).result()
    # Nothing moves at this rate, so that what is exported is what training began with.
    changed = {"lambda": True} if more else {"shards": 2, "width": 6}
    params = {"flavour": flavour, "shards": 3, "learning_rate": 0.0, **changed}
    for number, cluster in enumerate(others):
        gang.assets = SECOND
        train: dict[str, Any] = {"init_from": source.model, "init_tables": {"of_shade": "colours"}}
        train["init_optimizer"] = cluster is SERVED
        said = gang.output.tell()
        result = gang.train(night(tmp_path, f"second-{number}", cluster, params, **train), hooks())
        ours = elsewhere.submit(reference.weights_by_layer, result.model, unsafe=bool(more)).result()

        # Two rows for unknown colours, then the entries; of items one.
        assert_rows(ours["of_colour"][0], theirs["of_colour"][0], {0: 0, 1: 1, 3: 4, 4: 2}, [2])
        assert_rows(ours["of_item"][0], theirs["of_item"][0], {0: 0, 1: 4, 3: 13, 4: 8}, [2])
        assert_rows(ours["of_shade"][0], theirs["of_shade"][0], {0: 0, 3: 3, 5: 6, 6: 4}, [4])
        for layer in ("of_number", "label", *(("widened",) if more else ())):
            for mine, other in zip(ours[layer], theirs[layer], strict=True):
                np.testing.assert_array_equal(mine, other)

        carried = result.carried
        assert carried is not None
        assert (carried.source, carried.optimizer) == (source.model, cluster is SERVED)
        assert result.steps == FIRST_AT // 2
        if cluster is SERVED:
            counted = elsewhere.submit(reference.updates_counted, result.model).result()
            assert counted == FIRST_AT + result.steps
        told = {v.name: v for v in carried.variables}
        assert told["of_colour"] == CarriedVariable(
            name="of_colour", shape=(5, 3), how="entries", kept=2, new=1, left=1
        )
        assert told["of_item"] == CarriedVariable(name="of_item", shape=(5, 2), how="entries", kept=3, new=1, left=17)
        assert told["dense/bias"].how == "kept"
        gang.output.seek(said)
        out = " ".join(gang.output.read().split())
        kept = f"{14 if more else 7} of 14 variables kept" + ", the optimizer's state too" * (cluster is SERVED)
        assert f"begins from {source.model}: {kept}, 3 tables: 7 entries kept, 3 new, 19 gone" in out
        if not more:
            assert carried.left[:2] == ("widened/kernel", "widened/bias")
            assert told["widened/kernel"].how == "new"
            assert told["widened/kernel"].why == "its shape differs: [4, 6] here, [4, 4] there"


@pytest.mark.parametrize("flavour", only("keras", of=["keras", "tf_keras"]))
def test_workers_begin_with_what_the_leader_alone_has_drawn_or_read(
    flavour: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    """Were their weights not alike, the first checkpoint would fail."""
    lake.write(tmp_path / "lake", [100, 100])
    gang.assets = {}
    results: list[RunResult] = []
    for rate in (0.1, 0.0):
        config = lake.job(
            tmp_path,
            "unseeded",
            name=f"rate-{rate}",
            cluster=TWO_WORKERS,
            params={"flavour": flavour, "learning_rate": rate},
            data=lake.NUMBERS_TO_LABEL,
            train={"batch_size": 64, "init_from": results[0].model if results else None},
        )
        results.append(gang.train(config.model_copy(update={"model": "trainer.asking:unseeded"}), hooks()))
    ours, theirs = (elsewhere.submit(reference.weights_by_layer, r.model).result() for r in reversed(results))
    for mine, other in zip(ours["label"], theirs["label"], strict=True):
        np.testing.assert_array_equal(mine, other)
    # A model is built once more to read another one's weights into it.
    for result, built in zip(results, ([1, 1], [2, 1]), strict=True):
        logs = {path.name: path.read_text() for path in Path(result.path, "logs").glob("*-worker-*.log")}
        said = {name: text.count("the model is built") for name, text in logs.items()}
        attempt = result.attempts[0].attempt
        assert said == {f"{attempt:03d}-worker-{index}.log": count for index, count in enumerate(built)}
        assert result.attempts[0].collectives.startswith("sparktf")


@pytest.mark.parametrize("cluster", only(SERVED, of=[TWO_WORKERS, SERVED, {**ONE_PROCESS, "evaluator": True}]))
def test_the_weights_begun_with_are_kept_where_training_makes_them_worse(
    cluster: dict[str, Any], tmp_path: Path, gang: LocalGang, trained: RunResult, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    gang.assets = FIRST
    params = {"flavour": "keras", "shards": 3}
    beside_evaluator = "evaluator" in cluster
    train: dict[str, Any] = {"init_from": trained.model, "keep": "best", "epochs": 4}
    if not beside_evaluator:
        train["early_stopping"] = {"patience": 1}
    params |= {"optimizer": "SGD", "learning_rate": 50.0}
    worse = night(tmp_path, "second", cluster, params, held_out=True, **train)
    result = gang.train(worse, hooks())
    assert (result.validation[0].epoch, result.validation[0].step) == (-1, 0)
    assert result.kept is not None
    assert (result.kept.epoch, result.kept.step) == (-1, 0)
    assert result.kept.value == result.validation[0].values["loss"] < result.validation[1].values["loss"]
    if not beside_evaluator:
        assert result.stopped is not None
        assert result.stopped.text.endswith("at epoch 0"), result.stopped.text
        assert result.stopped.epoch == 1, "never after the first epoch"
    gang.output.seek(0)
    assert "those it began with: best loss" in gang.output.read()
    ours, theirs = (elsewhere.submit(reference.weights_by_layer, r.model).result() for r in (result, trained))
    for layer in ("of_number", "label"):
        for mine, other in zip(ours[layer], theirs[layer], strict=True):
            np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize(
    ("flavour", "said"),
    [
        (
            "keras",
            "the model has no variable in common with .*, which has other/kernel, other/bias; the model has of_c",
        ),
        ("tf_keras", "is a model of tf_keras, and this run uses keras, which cannot read it"),
    ],
)
def test_a_model_that_has_nothing_to_give_is_refused(
    flavour: str, said: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [64])
    gang.assets = FIRST
    file = tmp_path / "notebook.keras"
    elsewhere.submit(begun.save_another, flavour, str(file)).result()
    config = night(tmp_path, "refused", ONE_PROCESS, {"flavour": "keras", "shards": 1}, init_from=str(file))
    with pytest.raises(ModelContractError, match=f"train.init_from: .*{said}") as raised:
        gang.train(config, hooks())
    assert raised.value.verdict is Verdict.REFUSED
    assert raised.value.result.steps == 0


@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_the_weights_of_a_strangers_file_are_taken_and_none_of_its_code_is_run(
    flavour: str, elsewhere: ProcessPoolExecutor, tmp_path: Path
) -> None:
    found = elsewhere.submit(strangers.begun_from_a_strangers_file, flavour, str(tmp_path)).result()
    assert found.taken
    named = f"version 14 names code that is neither Keras's nor this model's (stranger_of_{flavour}.Functional)"
    assert named in found.refused
    assert "churn:build with its assets builds a model of other layers" in found.refused
    assert f"stranger_of_{flavour}.Functional" in found.read
    assert not found.ran
    if flavour == "tf_keras":
        assert found.would_run, "so the test would notice"


def test_the_state_of_an_optimizer_goes_with_its_variables(elsewhere: ProcessPoolExecutor) -> None:
    for flavour in ("keras", "tf_keras"):
        state = elsewhere.submit(begun.optimizer_taken_over, flavour).result()
        assert state.carried
        assert state.iterations == 7
        assert state.rate == pytest.approx(0.25), "the learning rate is a setting"
        for ours, theirs in zip(state.ours["label"], state.theirs["label"], strict=True):
            np.testing.assert_array_equal(ours, theirs)
        for ours, theirs in zip(state.ours["of_colour"], state.theirs["of_colour"], strict=True):
            np.testing.assert_array_equal(ours[[0, 1, 3, 4]], theirs[[0, 1, 4, 2]])
            np.testing.assert_array_equal(ours[2], 0)


def test_the_state_of_another_optimizer_or_of_one_that_made_no_update_is_left(elsewhere: ProcessPoolExecutor) -> None:
    for flavour in ("keras", "tf_keras"):
        assert not elsewhere.submit(begun.optimizer_taken_over, flavour, optimizer="SGD").result().carried
        assert not elsewhere.submit(begun.optimizer_taken_over, flavour, iterations=0).result().carried


def test_a_table_is_found_behind_its_lookup_however_the_model_is_made(elsewhere: ProcessPoolExecutor) -> None:
    for flavour in ("keras", "tf_keras"):
        assert elsewhere.submit(begun.tables_of_a_subclassed_model, flavour).result() == {
            "reshaped": ("entries", 1, ""),
            "ragged": ("entries", 1, ""),
            "joined": ("entries", 1, ""),
            "numbers": ("kept", 0, ""),
            "computed": (
                "new",
                0,
                "its rows are computed from other vocabularies there: see train.init_tables",
            ),
            "mixed": ("new", 0, "its rows are computed from other vocabularies there: see train.init_tables"),
        }


def test_of_a_model_that_cannot_be_called_it_is_told_why_its_tables_are_not_known(
    elsewhere: ProcessPoolExecutor,
) -> None:
    why = r"the model's 6 variables .* is not known there \(calling its model fails: KeyError: number\): name it"
    with pytest.raises(ModelContractError, match=why):
        elsewhere.submit(begun.tables_of_a_subclassed_model, "keras", "number").result()


def test_init_tables_names_what_is_there(elsewhere: ProcessPoolExecutor) -> None:
    with pytest.raises(ModelContractError, match=r"train\.init_tables: the model has no embedding layer 'of_color' "):
        elsewhere.submit(begun.optimizer_taken_over, "keras", named={"of_color": "colours"}).result()
    with pytest.raises(
        ModelContractError, match=r"init_tables\.of_shade: shades is neither a list of at most 7 entries"
    ):
        elsewhere.submit(begun.optimizer_taken_over, "keras", named={"of_shade": "shades"}).result()

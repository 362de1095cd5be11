"""What is published is loaded in a fresh process before anybody sees it, and predicts there as it was trained."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainer import lake, unportable
from trainer.local_gang import LocalGang

from sparktf.errors import ModelContractError, Verdict
from sparktf.results.result import RunResult
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.checkpoints import FileManifest, read_manifest

NO_ROW = "with the trained model on no row: it takes none of zeros"
FOREIGN = "model.keras was not compared: it needs the model's own code"


def stored(result: RunResult) -> dict[str, Any]:
    """Returns the predictions beside a run's model, which its manifest has."""
    names = [file.name for file in read_manifest(LocalStorage(), result.model, FileManifest).files]
    assert "predictions.npz" in names
    return dict(np.load(Path(result.model, "predictions.npz"), allow_pickle=False))


def logs_of(result: RunResult) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in Path(result.path, "logs").glob("*.log"))


def test_rows_of_training_and_what_is_predicted_for_them_go_with_the_model(tmp_path: Path, gang: LocalGang) -> None:
    table = lake.write(tmp_path / "lake", [100, 60])
    result = gang.train(unportable.job(tmp_path, "sound", workers=2, train={"batch_size": 20, "epochs": 1}))
    found = stored(result)
    columns = [table[name].to_pylist() for name in ("colour", *lake.NUMBERS)]
    rows = {(colour.encode(), *numbers) for colour, *numbers in zip(*columns, strict=True)}
    given = zip(found["inputs/colour"].tolist(), found["inputs/numbers"].tolist(), strict=True)
    assert {(colour, *numbers) for colour, numbers in given} <= rows
    assert {name: found[name].shape for name in found if name.startswith("outputs/")} == {
        "outputs/label": (32, lake.CLASSES),
        "outputs/price": (32, 1),
    }
    said = logs_of(result)
    assert said.count("a fresh process loaded the exported model, and its predictions agree: 32 rows") == 1
    assert f"{FOREIGN}: Untold" in said
    # The model takes no row of zeros; nobody has asked it to.
    assert not [warning for warning in result.warnings if NO_ROW in warning]


def test_a_coordinator_compares_rows_that_were_held_out(tmp_path: Path, gang: LocalGang) -> None:
    lake.write(tmp_path / "lake", [100, 60])
    held_out = lake.write(tmp_path / "held-out", [40], seed=7)
    config = unportable.job(
        tmp_path,
        "of Keras alone",
        flavour="tf_keras",
        data={"validation": {"path": str(tmp_path / "held-out")}},
        cluster={"strategy": "parameter_server", "workers": 1, "ps": 1},
        train={"batch_size": 20, "epochs": 1},
    )
    result = gang.train(config)
    numbers = np.stack([held_out[name].to_numpy() for name in lake.NUMBERS], axis=1)
    assert np.isin(stored(result)["inputs/numbers"], numbers).all()
    assert "its predictions agree: 32 rows" in logs_of(result)
    assert FOREIGN not in logs_of(result)


def test_a_model_that_takes_no_row_of_zeros_is_published_by_a_coordinator_that_has_read_none(
    tmp_path: Path, gang: LocalGang
) -> None:
    lake.write(tmp_path / "lake", [100, 60])
    served = {"strategy": "parameter_server", "workers": 1, "ps": 1}
    result = gang.train(unportable.job(tmp_path, "known words alone", cluster=served, train={"batch_size": 20}))
    assert result.steps == 8
    assert len(stored(result)["inputs/numbers"]) == 0
    assert len([warning for warning in result.warnings if NO_ROW in warning]) == 1


def test_a_model_that_calls_python_code_is_refused_before_anybody_sees_it(tmp_path: Path, gang: LocalGang) -> None:
    lake.write(tmp_path / "lake", [100])
    config = unportable.job(tmp_path, "python code", train={"batch_size": 50, "epochs": 1})
    with pytest.raises(ModelContractError, match=r"without the code that built it: .*pyfunc_\d+") as raised:
        gang.train(config)
    result = raised.value.result
    assert (result.verdict, result.model, len(result.attempts)) == (Verdict.REFUSED, "", 1)
    assert not Path(result.path, "model").exists()
    assert list(Path(result.path, "checkpoints").glob("step-*"))


@pytest.mark.parametrize(
    ("kind", "flavour", "options", "said"),
    [
        ("another one each time", "keras", {"here": True}, "its SavedModel does not give the predictions of the model "
         "that was trained: output 'label' differs in 96 of 96 values, by up to"),
        ("of Keras alone", "keras", {"spoiled": "model.keras"}, "its model.keras does not give the predictions"),
        ("of Keras alone", "tf_keras", {"spoiled": "SavedModel", "here": True},
         "its SavedModel does not give the predictions"),
        ("random", "tf_keras", {}, "predictions for the same rows differ from call to call (output "),
    ],
)  # fmt: skip
def test_what_does_not_predict_as_it_was_trained_is_told_by_output(
    kind: str, flavour: str, options: dict[str, Any], said: str, tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [100])
    assert said in elsewhere.submit(unportable.try_out, str(tmp_path), kind, flavour, **options).result()

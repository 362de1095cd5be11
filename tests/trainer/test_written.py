"""Models that Keras cannot write into a `.keras` file: told before they are trained."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from trainer import lake, refused
from trainer.local_gang import LocalGang

from sparktf.config.job import JobConfig
from sparktf.errors import ConfigError, ModelContractError, Verdict


def job(folder: Path, **sections: Any) -> JobConfig:
    """Returns the configuration of a model with a schedule that has no `get_config`."""
    return lake.job(
        folder,
        "spoiled",
        params={"flavour": "keras", "unwritable": True, "until": 1000},
        data=lake.NUMBERS_TO_LABEL,
        train={"batch_size": 64},
        **sections,
    )


@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_what_stands_against_a_file_is_named(flavour: str, elsewhere: ProcessPoolExecutor) -> None:
    found = elsewhere.submit(refused.unwritable, flavour).result()
    assert found["sound"] == ""
    assert found["a schedule"].startswith("optimizer SGD: NotImplementedError: Learning rate schedule 'Constant' must")
    assert found["a layer of an array"].startswith("layer 'times' (Times): NotImplementedError: ")
    assert found["a lambda"].startswith("loss <lambda>, which needs a name of its own: OSError: ")


def test_it_is_refused_before_it_is_trained_or_exported_without_the_file_where_that_is_asked_for(
    tmp_path: Path, gang: LocalGang
) -> None:
    lake.write(tmp_path / "lake", [128])
    with pytest.raises(ModelContractError, match=r"schedule 'Constant' .*set export.formats: \[saved_model\]") as error:
        gang.train(job(tmp_path))
    assert (error.value.result.verdict, error.value.result.steps) == (Verdict.REFUSED, 0)
    assert len(error.value.result.attempts) == 1

    config = job(tmp_path, export={"formats": ["saved_model"]}, publish={}, name="saved")
    result = gang.train(config)
    assert result.steps == 2
    assert Path(result.model, "saved_model", "saved_model.pb").exists()
    assert not Path(result.model, "model.keras").exists()
    assert any("exported as a SavedModel alone" in warning and "'Constant'" in warning for warning in result.warnings)


def test_formats_that_leave_out_what_is_needed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"export\.formats: must include saved_model"):
        job(tmp_path, export={"formats": ["keras"]})
    config = job(tmp_path).model_dump()
    config |= {"train": {"init_from": "published"}, "export": {"formats": ["saved_model"]}}
    with pytest.raises(ConfigError, match=r"init_from: published begins from the \.keras file .* add keras"):
        JobConfig.model_validate(config)

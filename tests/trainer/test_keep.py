"""Which epoch's weights a run exports."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from trainer import lake, reference
from trainer.local_gang import LocalGang

from sparktf.config.job import JobConfig
from sparktf.errors import ModelContractError, Verdict

STEPS = 7
"""Updates of an epoch."""


ONE_PROCESS = {"strategy": "single"}
TWO_WORKERS = {"strategy": "multi_worker_mirrored", "workers": 2}
THREE_WORKERS = {"strategy": "multi_worker_mirrored", "workers": 3}
SERVED = {"strategy": "parameter_server", "workers": 1, "ps": 2}


def keeping(folder: Path, epochs: int, cluster: dict[str, Any], params: dict[str, Any], **train: Any) -> JobConfig:
    """Returns the configuration of a model that is spoiled after the second epoch; one checkpoint is kept."""
    held_out = {"validation": {"path": str(folder / "held-out")}}
    return lake.job(
        folder,
        "spoiled",
        cluster=cluster,
        params={"until": 2 * STEPS, **params},
        data={**lake.NUMBERS_TO_LABEL, **held_out},
        train={"batch_size": 64, "epochs": epochs, "keep": "best", **train},
        checkpoint={"keep": 1, "every_steps": 5},
    )


@pytest.mark.parametrize(
    ("flavour", "before", "after", "averages"),
    [
        ("tf_keras", TWO_WORKERS, SERVED, {}),
        # A run of Keras 3 that stops early tells the same of the other order: test_stopping.py.
        pytest.param("keras", TWO_WORKERS, SERVED, {}, marks=pytest.mark.more),
        pytest.param("tf_keras", SERVED, THREE_WORKERS, {}, marks=pytest.mark.more),
        pytest.param("keras", TWO_WORKERS, SERVED, {"averages": 0.5}, marks=pytest.mark.more),
    ],
)
def test_the_best_weights_are_exported_also_after_a_resume_under_another_strategy(
    flavour: str,
    before: dict[str, Any],
    after: dict[str, Any],
    averages: dict[str, float],
    tmp_path: Path,
    gang: LocalGang,
    elsewhere: ProcessPoolExecutor,
) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    lake.write(tmp_path / "held-out", [150], seed=7)
    for epochs, cluster in ((3, before), (4, after)):
        config = keeping(tmp_path, epochs, cluster, {"flavour": flavour, **averages})
        result = gang.train(config)

        steps = [STEPS * (epoch + 1) for epoch in range(epochs)]
        assert [(e.epoch, e.step, e.rows) for e in result.validation] == [(i, s, 150) for i, s in enumerate(steps)]
        best = min(result.validation, key=lambda e: e.values["loss"])
        assert best.epoch < 2, "the model was not spoiled"
        assert result.kept is not None
        assert (result.kept.epoch, result.kept.step) == (best.epoch, best.step)
        assert (result.kept.metric, result.kept.mode, result.kept.value) == ("loss", "min", best.values["loss"])
        assert result.metrics["validation"] == best.values
        exported = elsewhere.submit(
            reference.evaluate, config, str(tmp_path / "held-out"), f"{result.model}/model.keras"
        ).result()
        assert best.values == pytest.approx(exported, abs=1e-5)
        folders = sorted(path.name for path in Path(result.path, "checkpoints").glob("step-*"))
        assert folders == [f"step-{step:012}" for step in (best.step, steps[-1])]
        Path(result.path, "result.json").unlink()  # as if the driver had been killed before its end
    assert result.attempts[0].from_step == 3 * STEPS


def test_an_evaluator_finds_the_last_weights_beside_workers_that_do_not_wait(
    tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    lake.write(tmp_path / "held-out", [150], seed=7)
    config = keeping(tmp_path, 2, {**TWO_WORKERS, "evaluator": True}, {"flavour": "keras", "averages": 0.5})
    result = gang.train(config)
    assert result.steps == 2 * STEPS
    last = result.validation[-1]
    assert (last.epoch, last.step, last.rows) == (1, 2 * STEPS, 150)
    best = min(result.validation, key=lambda e: e.values["loss"])
    assert result.kept is not None
    assert (result.kept.epoch, result.kept.step) == (best.epoch, best.step)
    exported = elsewhere.submit(
        reference.evaluate, config, str(tmp_path / "held-out"), f"{result.model}/model.keras"
    ).result()
    assert best.values == pytest.approx(exported, abs=1e-5)
    assert [node.node for node in result.attempts[0].nodes] == ["worker 0", "worker 1", "evaluator 0"]
    assert result.attempts[0].workers == 2


@pytest.mark.more(
    "trainer/test_tried.py::test_metrics_that_the_configuration_names_are_compared_with_the_models",
    "trainer/test_refusals.py::test_a_run_ends_with_the_refusal",
)
def test_a_metric_that_the_model_does_not_have_is_refused_by_name(tmp_path: Path, gang: LocalGang) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    lake.write(tmp_path / "held-out", [150], seed=7)
    config = keeping(tmp_path, 1, ONE_PROCESS, {"flavour": "keras"}, keep_metric="val_auc")
    with pytest.raises(
        ModelContractError, match=r"val_auc is not a validation metric .*: name one of loss, accuracy"
    ) as error:
        gang.train(config)
    assert error.value.result.verdict is Verdict.REFUSED
    assert len(error.value.result.attempts) == 1

"""The example of a hand-written loop on real data; test_readme has `make train`, and on YARN `make train-yarn`."""

from __future__ import annotations

from pathlib import Path

from integration.application import Application
from integration.digits import HELD_OUT, TRAINED, accuracy_in_a_fresh_process, digits_job


def test_the_example_of_a_hand_written_loop_trains(local: Application, digits: Path, tmp_path: Path) -> None:
    config = digits_job(digits, local.sandbox.runs, "digits_loop.yaml", train={"epochs": 4})
    result = local.train({**config, "publish": {}}, "r").done
    assert [(e.planned, e.fed, e.trained) for e in result.rows] == [(TRAINED + HELD_OUT,) * 3] * 4
    serving = Path(result.path).parent / "serving"
    assert (serving / "CURRENT").read_text(encoding="utf-8") == "1\n"
    assert accuracy_in_a_fresh_process(serving / "1", digits, tmp_path) >= 0.8
    model = Path(result.model)
    for name in ("saved_model/saved_model.pb", "saved_model/variables/variables.data-00000-of-00001", "model.keras"):
        published = serving / "1" / name.removeprefix("saved_model/")
        assert published.read_bytes() == (model / name).read_bytes(), "the run's own model is as good"

"""What a version before has stored is found, shown, rolled back and promoted; test_spark_resume goes on with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stored_runs import StoredRuns, unpack

from sparktf.commands.cli import main
from sparktf.config.load import load_config
from sparktf.errors import Verdict
from sparktf.published.serving import Serving
from sparktf.results.result import RunResult
from sparktf.storage.local import LocalStorage

NIGHTS = ("2026-11-01", "2026-11-02")


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredRuns:
    runs = StoredRuns(tmp_path)
    monkeypatch.setenv("SPARKTF_OUTPUT", str(runs.root))
    return runs


def test_plans_are_still_those_of_their_configurations(tmp_path: Path) -> None:
    runs = unpack(tmp_path)
    assert len(runs) == 4
    for run in runs:
        spec = json.loads((run / "plan/spec.json").read_bytes())
        assert load_config(str(run / "config.yaml")).plan_hash() == spec["plan_hash"]


def test_runs_are_listed_and_each_is_shown(stored: StoredRuns, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "nightly", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted((row["run_id"], row["verdict"], row["rows"]) for row in rows) == [
        (night, Verdict.DONE, 240) for night in NIGHTS
    ]
    assert main(["show", f"nightly/{NIGHTS[0]}"]) == 0
    assert "240 planned, 240 fed, 240 trained" in capsys.readouterr().out
    assert main(["show", "sync/r"]) == 0
    assert "submit the same run id, which goes on where it was" in capsys.readouterr().out
    result = RunResult.model_validate_json((stored.root / "nightly" / NIGHTS[1] / "result.json").read_bytes())
    assert Path(result.model).is_relative_to(stored.root)


def test_published_models_are_listed_rolled_back_and_promoted(
    stored: StoredRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    serving = Serving(LocalStorage(), str(stored.root), "nightly")
    assert main(["models", "nightly"]) == 0
    shown = capsys.readouterr().out
    assert all(night in shown for night in NIGHTS)
    assert serving.current() == 2
    assert main(["rollback", "nightly"]) == 0
    assert serving.current() == 1
    assert main(["promote", f"nightly/{NIGHTS[1]}"]) == 0
    runs = {version.number: serving.manifest(version).run_id for version in serving.versions()}
    assert runs[serving.current() or 0] == NIGHTS[1]

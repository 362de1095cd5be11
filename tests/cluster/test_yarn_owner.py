"""Two submissions of one run on YARN at the same moment, of one that publishes what it has trained."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from cluster.submission import Submission, digits_config, put_digits, tags

from minihadoop import MiniHadoop

RUN = "2026-11-20"


@pytest.mark.timeout(600)
def test_of_two_submissions_at_once_one_trains_and_publishes_and_the_other_ends_with_2(
    hadoop: MiniHadoop, tmp_path: Path
) -> None:
    lake = put_digits(hadoop, tmp_path / "lake")
    config = digits_config(
        tmp_path,
        lake,
        data={"checks": {}},
        cluster={"workers": 1},
        train={"epochs": 20},
        submit={"deploy_mode": "client"},
    )
    with ExitStack() as stack:
        submissions = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            job = {**config, "publish": {}}
            submissions.append(
                stack.enter_context(Submission(hadoop, tmp_path / name, job, "--run-id", RUN, *tags("digits")))
            )
        codes = [submission.wait() for submission in submissions]
        said = [submission.output() for submission in submissions]
    assert sorted(codes) == [0, 7], "\n".join(said)
    owner, other = (submissions[codes.index(code)] for code in (0, 7))
    assert f"run digits/{RUN} is owned by application {owner.application().id}" in other.output()
    owner.assert_is_done("client", RUN, epochs=20)
    result = owner.result(RUN)
    assert result.application == owner.application().id
    assert len(result.attempts) == 1, "the container had room for the process that tries the model out"
    assert {rows.planned for rows in result.rows} == {rows.trained for rows in result.rows}

    serving = f"{config['output']['path']}/digits/serving"
    assert hadoop.hdfs.get(f"{serving}/CURRENT") == b"1\n"
    manifest = json.loads(hadoop.hdfs.get(f"{serving}/1/MANIFEST.json"))
    files = {file["name"] for file in manifest["files"]}
    assert {"saved_model.pb", "model.keras", "predictions.npz", "statistics.json", "metrics.json"} <= files
    assert manifest["run_id"] == RUN
    (log,) = hadoop.hdfs.names(f"{config['output']['path']}/digits/{RUN}/logs")
    trainer = hadoop.hdfs.get(f"{config['output']['path']}/digits/{RUN}/logs/{log}").decode()
    assert "a fresh process loaded the exported model, and its predictions agree: 32 rows" in trainer

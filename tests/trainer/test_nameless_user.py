"""A user id without a name, as clusters of pods give to containers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sparktf.rundir import RunDirectory
from sparktf.storage.file_systems import open_storage
from sparktf.storage.transactions.terms import look

REPO = Path(__file__).parents[2]
NAMES = ("USER", "LOGNAME", "LNAME", "USERNAME", "HADOOP_USER_NAME", "HADOOP_PROXY_USER", "SPARK_USER", "HOME")


def test_a_user_id_without_a_name_trains_and_goes_by_its_number(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    paths = os.pathsep.join(map(str, (REPO, REPO / "tests")))
    done = subprocess.run(
        ["unshare", "--user", "--map-user=4711", "--map-group=0", sys.executable, "-m", "trainer.nameless", tmp_path],
        env={**environment, "PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "verdict 0, rows 256" in done.stdout
    terms = RunDirectory(str(tmp_path / "runs"), "job", "run").terms
    owner = look(open_storage(terms), terms).owner
    assert owner is not None
    assert owner.user == "4711"

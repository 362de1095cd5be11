"""The command that learns how a run has ended."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from guests.conftest import Trained
from integration.processes import has_ended
from lakes import no_filter, write_lake
from pretend import PretendDriver, pretend_config, unmeasured

from sparktf.driver.plan.planner import plan_source
from sparktf.errors import DataError, NodeLostError, Verdict
from sparktf.knobs import KNOBS
from sparktf.nightly.errand import Errand
from sparktf.nightly.history import read_history
from sparktf.nightly.night import Night
from sparktf.results.result import Application
from sparktf.storage.file_systems import FileSystems, open_storage
from sparktf.storage.local import LocalStorage

LIMIT_S = 1.0


class Place:
    """A lake, and runs of it that are pretended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lake = folder / "lake"
        if not self.lake.exists():
            write_lake(self.lake, [40])
        self.result = folder / "runs/t/r/result.json"

    def driver(self, *command: str, failures: int = 0, **output: Any) -> PretendDriver:
        sections: dict[str, Any] = {"train": {"max_attempts": 1}, "timeouts": {"on_end": LIMIT_S}}
        output = {"path": str(self.folder / "runs"), "on_end": command, **output}
        config = pretend_config(self.lake, self.folder / "runs", **sections, output=output)
        driver = PretendDriver(Application("a"), config, plan_source(config, open_storage, no_filter))
        driver.hooks = Night(FileSystems(), driver.site.clock, unmeasured)
        driver.failures = failures
        return driver

    def script(self, text: str) -> str:
        path = self.folder / "command.sh"
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def warnings_of(driver: PretendDriver) -> list[str]:
    return [line for line in driver.said.getvalue().splitlines() if line.startswith("warning: ")]


def eventually(found: Callable[[], bool]) -> bool:
    end_s = time.monotonic() + 30
    while time.monotonic() < end_s:
        if found():
            return True
        time.sleep(0.02)
    return False


def is_over(pid: int) -> bool:
    """Whether no process has this number, or one that has ended."""
    try:
        return has_ended(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True


def test_it_gets_the_result_and_what_it_says_is_shown(place: Place) -> None:
    command = place.script(
        'cat > got.json; echo "$SPARKTF_RUN ended with $SPARKTF_VERDICT: $1"; echo "$SPARKTF_PATH" >&2'
    )
    driver = place.driver("sh", "-c", f"cd {place.folder} && exec {command} 'a b'")
    driver.train()
    assert (place.folder / "got.json").read_bytes() == place.result.read_bytes()
    said = driver.said.getvalue().splitlines()
    assert "on_end: t/r ended with 0: a b" in said
    assert f"on_end: {place.result.parent}" in said
    assert not warnings_of(driver)


def test_it_runs_whatever_the_verdict_is_and_not_for_one_that_is_repeated(place: Place) -> None:
    command = place.script(f'echo "$SPARKTF_VERDICT $SPARKTF_CAUSE" >> {place.folder}/ends')
    with pytest.raises(NodeLostError):
        place.driver(command, failures=1).train()
    place.driver(command).train()
    assert place.driver(command).train().verdict is Verdict.DONE  # repeated
    assert (place.folder / "ends").read_text(encoding="utf-8") == "4 lost\n0 \n"


def test_it_is_told_a_cause_that_no_program_could_be_given(place: Place) -> None:
    driver = place.driver(place.script('echo "$SPARKTF_VERDICT $SPARKTF_CAUSE"'))
    driver.refusal = DataError("[/lake/x]\x00\x1b]0; " + "x" * 200_000)
    with pytest.raises(DataError):
        driver.train()
    assert "on_end: 3 [/lake/x]\\x00\\x1b]0;" in driver.said.getvalue()
    assert not warnings_of(driver)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("cat >/dev/null; echo no mail server; exit 3", "ended with exit code 3: no mail server"),
        ("exit 3", "ended with exit code 3"),
        ("kill -9 $$", "ended with exit code -9"),
        ("echo waiting; sleep 600", "was ended after 1 s: waiting"),
        ("yes", "was ended after 1 s: y"),
    ],
)
def test_one_that_fails_or_hangs_is_a_warning_and_no_other_verdict(place: Place, text: str, complaint: str) -> None:
    command = place.script(text)
    driver = place.driver(command)
    began_s = time.monotonic()
    assert driver.train().verdict is Verdict.DONE
    assert time.monotonic() - began_s < 300, "it would sleep for ten minutes, or say yes for ever"
    assert warnings_of(driver) == [f"warning: output.on_end: {command} {complaint}"]


def test_the_end_of_a_run_that_is_interrupted_is_told_in_haste(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KNOBS, "hasty_guest_s", 0.5)
    command = place.script('echo "$SPARKTF_CAUSE"; exec sleep 600')
    driver = place.driver(command)

    def interrupt() -> None:
        raise KeyboardInterrupt

    driver.site.clock.passed = interrupt
    with pytest.raises(KeyboardInterrupt):
        driver.train()
    cause = "interrupted; submit the same run id again to go on from the last checkpoint"
    assert f"on_end: {cause}" in driver.said.getvalue()
    assert warnings_of(driver) == [f"warning: output.on_end: {command} was ended after 0.5 s: {cause}"]


def test_one_that_is_not_there_is_named(place: Place) -> None:
    driver = place.driver("tell-everybody", "now")
    assert driver.train().verdict is Verdict.DONE
    complaint = "ended with exit code 127: tell-everybody: No such file or directory"
    assert warnings_of(driver) == [f"warning: output.on_end: tell-everybody {complaint}"]


def test_what_it_has_started_ends_with_it(place: Place) -> None:
    driver = place.driver(place.script(f"sleep 600 & echo $! > {place.folder}/child"))
    driver.train()
    child = int((place.folder / "child").read_text(encoding="utf-8"))
    assert eventually(lambda: is_over(child))
    assert not warnings_of(driver)


def test_it_ends_with_the_driver(place: Place) -> None:
    pid = place.folder / "pid"
    program = (
        "from sparktf.nightly.errand import Errand\n"
        f"Errand(['sh', '-c', 'echo $$ > {pid}; exec sleep 600'], b'', 600).wait()"
    )
    driver = subprocess.Popen([sys.executable, "-c", program])
    assert eventually(lambda: pid.exists() and pid.read_text(encoding="utf-8") != "")
    command = psutil.Process(int(pid.read_text(encoding="utf-8")))
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert eventually(lambda: has_ended(command))


def test_it_has_the_drivers_environment_but_what_opens_the_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_SECRET", "hush")
    monkeypatch.setenv("SLACK_URL", "https://hooks")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    found = dict(line.partition("=")[::2] for line in Errand(["env"], b"", 30, {"MORE": "1"}).wait().lines)
    assert (found["SLACK_URL"], found["MORE"]) == ("https://hooks", "1")
    assert not [key for key in found if key.startswith(("PYSPARK_GATEWAY", "PYTHONPATH", "SPARKTF"))]
    assert found.keys() <= os.environ.keys() | {"MORE", "_", "SHLVL", "PWD"}
    monkeypatch.setenv("PYTHONPATH", "/mine")
    assert "PYTHONPATH=/mine" in Errand(["env"], b"", 30).wait().lines


def test_a_real_run_tells_all_that_its_result_holds(trained: Trained) -> None:
    path = Path(trained.result.path) / "result.json"
    assert trained.told.read_bytes() == path.read_bytes()
    assert json.loads(path.read_bytes())["extra"]["published"] == 1


KILLS = 8
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["guests.test_on_end", "sparktf.nightly.report.run_page"])


def drive(folder: Path, run_id: str) -> None:
    """Is a driver of its own process: a run that keeps a history and a report, and tells a command of its end."""
    place = Place(folder)
    driver = place.driver(f"{folder}/command.sh", history=True, report=True)
    driver.run_id = run_id
    driver.train()


@pytest.mark.more(
    "simulation/test_cases.py::test_the_simulator_finds_it",
    "guests/test_on_end.py::test_it_runs_whatever_the_verdict_is_and_not_for_one_that_is_repeated",
)
def test_a_driver_that_is_killed_at_any_moment_after_its_last_commit_leaves_the_rest_to_the_next_submission(
    place: Place,
) -> None:
    place.script(f'echo "$SPARKTF_RUN_ID" >> {place.folder}/ends')
    runs, chance, killed = place.folder / "runs/t", random.Random(7), 0

    def begin(run_id: str) -> Any:
        """Starts a driver; returns its process once it has made its last commit."""
        process = PROCESSES.Process(target=drive, args=(place.folder, run_id))
        process.start()
        assert eventually((runs / run_id / "checkpoints/step-000000000020").exists)
        return process

    whole, began_s = begin("whole"), time.monotonic()
    whole.join()
    takes_s = time.monotonic() - began_s
    for number in range(KILLS):
        first = begin(f"run-{number}")
        first.join(chance.uniform(0.0, takes_s))
        first.kill()
        first.join()
        killed += first.exitcode == -signal.SIGKILL
        drive(place.folder, f"run-{number}")
    ids = sorted(["whole", *(f"run-{number}" for number in range(KILLS))])
    assert killed
    assert sorted(row.run_id for row in read_history(LocalStorage(), str(runs.parent), ["t"])) == ids
    assert sorted(path.parent.name for path in runs.glob("*/report.html")) == ids
    # One that was killed between the command's last moment and the call that records it has run it twice.
    assert sorted(set((place.folder / "ends").read_text(encoding="utf-8").split())) == ids

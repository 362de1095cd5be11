"""The command that learns how a run has ended."""

from __future__ import annotations

import json
import os
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
from lakes import no_filter, write_lake
from pretend import PretendDriver, pretend_config, unmeasured

from sparktf.driver.plan.planner import plan_source
from sparktf.errors import DataError, NodeLostError, Verdict
from sparktf.knobs import KNOBS
from sparktf.nightly.errand import Errand
from sparktf.nightly.night import Night
from sparktf.result import Application
from sparktf.storage import FileSystems, open_storage

LIMIT_S = 1.0


class Place:
    """A lake, and runs of it that are pretended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lake = write_lake(folder / "lake", [40])
        self.result = folder / "runs/t/r/result.json"

    def driver(self, *command: str, failures: int = 0) -> PretendDriver:
        sections: dict[str, Any] = {"train": {"max_attempts": 1}, "timeouts": {"on_end": LIMIT_S}}
        output = {"path": str(self.folder / "runs"), "on_end": command}
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
    assert time.monotonic() - began_s < 10
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
    cause = "interrupted; the same run id goes on from the last checkpoint"
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
    assert eventually(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie")
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
    assert eventually(lambda: not command.is_running() or command.status() == "zombie")


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

"""The files of yarn/schedules with a pretended sparktf: what is tried again, what people are told, and when."""

from __future__ import annotations

import configparser
import fcntl
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sparktf.errors import Verdict

ROOT = Path(__file__).parents[2]
SCHEDULES = ROOT / "yarn/schedules"
PAGE = (ROOT / "docs/nights/scheduling.md").read_text(encoding="utf-8")
DATE = "2026-11-20"
INTERRUPTED = 130
BUSY = 75
TOO_LONG_S = 60

# Each run takes its exit code from a queue of them, which ends with 0.
PRETENDED = """\
#!/bin/sh
echo "$@" >> {folder}/submitted
echo "a line of the run" >&2
read -r code rest < {folder}/codes
echo "$rest" > {folder}/codes
exit "${{code:-0}}"
"""

# Says that it runs, then waits until it is told to end.
WAITING = """\
#!/bin/sh
trap 'kill $!; echo stopped in order >&2; exit 130' TERM
read -r word < {folder}/go &
echo up > {folder}/up
wait
"""


def table() -> dict[int, str]:
    """Returns exit code -> what a scheduler should do, by the table that people read."""
    rows = re.findall(r"^\| (\d+) \| [^|]* \| ([^|]*) \|$", PAGE, re.M)
    return {int(code): action for code, action in rows}


TABLE = table()
RETRIED = sorted(code for code, action in TABLE.items() if action.startswith("retry"))
TRIES = len(RETRIED) + 1
ALERTS = sorted(code for code, action in TABLE.items() if action.startswith("alert"))


class Night:
    """A folder with a configuration, and a pretended sparktf."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "churn.yaml"
        self.config.write_text("name: churn\n", encoding="utf-8")
        self.log = folder / f"logs/churn-{DATE}.log"
        self.pretend(PRETENDED)

    def pretend(self, program: str) -> None:
        path = self.folder / "sparktf"
        path.write_text(program.format(folder=self.folder), encoding="utf-8")
        path.chmod(0o755)

    def ends_with(self, *codes: int) -> None:
        (self.folder / "codes").write_text(" ".join(map(str, codes)) + "\n", encoding="utf-8")

    def submitted(self) -> list[str]:
        return (self.folder / "submitted").read_text(encoding="utf-8").splitlines()

    def environment(self, *, logs: bool = True) -> dict[str, str]:
        settings = {"SPARKTF": f"{self.folder}/sparktf", "SPARKTF_TRIES": str(TRIES), "SPARKTF_PAUSE": "0"}
        settings["HOME"] = f"{self.folder}/home"
        return {"PATH": "/usr/bin:/bin", **settings, **({"SPARKTF_LOGS": f"{self.folder}/logs"} if logs else {})}

    def start(self, *options: str, logs: bool = True) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [SCHEDULES / "nightly.sh", str(self.config), DATE, *options],
            env=self.environment(logs=logs),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def run(self, *options: str, logs: bool = True) -> subprocess.CompletedProcess[str]:
        process = self.start(*options, logs=logs)
        try:
            out, err = process.communicate(timeout=TOO_LONG_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def night(tmp_path: Path) -> Night:
    return Night(tmp_path)


def test_the_table_has_every_exit_code() -> None:
    assert sorted(TABLE) == sorted([*map(int, Verdict), INTERRUPTED])
    assert (RETRIED, TABLE[5].split(" ")[0]) == ([4, 6, 7], "skip")


# --- nightly.sh ---


def test_of_a_night_that_is_done_nothing_is_said(night: Night) -> None:
    night.ends_with(0)
    done = night.run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert night.submitted() == [f"submit {night.config} --date {DATE}"]
    assert night.log.read_text(encoding="utf-8") == "a line of the run\n"


def test_what_may_come_right_by_itself_is_tried_again_as_the_same_run(night: Night) -> None:
    night.ends_with(*RETRIED, 0)
    done = night.run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert night.submitted() == [f"submit {night.config} --date {DATE}"] * TRIES


@pytest.mark.parametrize("code", RETRIED)
def test_what_does_not_come_right_is_told_after_the_last_try(night: Night, code: int) -> None:
    night.ends_with(*[code] * TRIES, 0)
    done = night.run()
    assert done.returncode == code
    assert done.stdout.startswith(f"churn {DATE}: exit code {code}, ")
    assert len(night.submitted()) == TRIES


@pytest.mark.parametrize("code", sorted({*TABLE, 126, 137} - {0, *RETRIED}))
def test_all_else_is_told_at_once_with_the_end_of_the_log(night: Night, code: int) -> None:
    night.ends_with(code, 0)
    done = night.run()
    assert (done.returncode, done.stderr) == (code, "")
    first, *rest = done.stdout.splitlines()
    assert first.startswith(f"churn {DATE}: exit code {code}, ")
    assert first.endswith(f"; see {night.log}, which ends with:")
    assert rest == ["a line of the run"]
    assert len(night.submitted()) == 1


def test_a_sparktf_that_is_not_there_is_told_of(night: Night) -> None:
    (night.folder / "sparktf").unlink()
    done = night.run()
    assert done.returncode == 127
    assert "it could not be run" in done.stdout
    assert "not found" in done.stdout


def test_without_a_folder_for_logs_output_is_the_schedulers(night: Night) -> None:
    night.ends_with(3)
    done = night.run("--set", "train.epochs=2", logs=False)
    assert done.returncode == 3
    assert done.stdout == f"churn {DATE}: exit code 3, the data was refused: this is for those who make it\n"
    assert done.stderr == "a line of the run\n"
    assert night.submitted() == [f"submit {night.config} --date {DATE} --set train.epochs=2"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["churn.yaml"], "usage: nightly.sh CONFIG DATE [OPTION...]"),
        (["churn.yaml", "neverday"], "invalid date"),
        (["no-such.yaml", "today"], "no-such.yaml"),
    ],
)
def test_what_cannot_be_a_run_is_refused(night: Night, arguments: list[str], said: str) -> None:
    done = subprocess.run(
        [SCHEDULES / "nightly.sh", *arguments],
        env=night.environment(),
        cwd=night.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == int(Verdict.REFUSED)
    assert said in done.stderr
    assert not (night.folder / "submitted").exists()


@pytest.fixture
def under_way(night: Night) -> Iterator[subprocess.Popen[str]]:
    """A run that has begun, and goes on until it is told to end."""
    night.pretend(WAITING)
    for name in ("up", "go"):
        os.mkfifo(night.folder / name)
    with night.start() as process:
        try:
            assert (night.folder / "up").read_text(encoding="utf-8") == "up\n"
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_one_run_of_a_configuration_goes_at_a_time(night: Night, under_way: subprocess.Popen[str]) -> None:
    second = night.run()
    assert second.returncode == BUSY
    assert "an earlier run of" in second.stdout
    (night.folder / "go").write_text("now\n", encoding="utf-8")
    assert under_way.wait(TOO_LONG_S) == 0


def test_who_may_read_the_configuration_cannot_keep_a_night_from_beginning(night: Night) -> None:
    night.ends_with(0)
    with night.config.open() as anybody:
        fcntl.flock(anybody, fcntl.LOCK_EX)
        done = night.run()
    assert (done.returncode, done.stdout) == (0, "")
    (lock,) = (path for path in (night.folder / "home").rglob("*") if path.is_file())
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    assert stat.S_IMODE(lock.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_reaches_the_run_which_stops_in_order(
    night: Night, under_way: subprocess.Popen[str], number: signal.Signals
) -> None:
    under_way.send_signal(number)
    assert under_way.wait(TOO_LONG_S) == INTERRUPTED
    assert night.log.read_text(encoding="utf-8") == "stopped in order\n"


# --- systemd ---


class Unit:
    """A unit file, as systemd reads it."""

    def __init__(self, name: str) -> None:
        parser = configparser.RawConfigParser(strict=False)
        parser.optionxform = str  # type: ignore[assignment, method-assign]
        parser.read(SCHEDULES / "systemd" / name, encoding="utf-8")
        self.service = parser["Service"]

    def command(self, key: str) -> list[str]:
        """Returns a command, after systemd's own `$$` and `%%`."""
        return shlex.split(self.service[key].replace("$$", "$").replace("%%", "%").replace("%i", "sparktf-churn"))


def test_systemd_tries_again_and_passes_over_as_the_table_says() -> None:
    service = Unit("sparktf-churn.service").service
    assert sorted(map(int, service["RestartForceExitStatus"].split())) == RETRIED
    assert service["SuccessExitStatus"] == "5"
    assert "Restart" not in service


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not on this machine")
    for path in (SCHEDULES / "systemd").iterdir():
        shutil.copy(path, tmp_path)
    done = subprocess.run(
        ["systemd-analyze", "verify", *tmp_path.iterdir()], capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if "RestartMode" not in line]  # systemd 254 knows it
    assert (done.returncode, said) == (0, [])


def test_under_systemd_a_try_after_midnight_is_the_same_run(night: Night, tmp_path: Path) -> None:
    unit = Unit("sparktf-churn.service")
    night.ends_with(4, 0)
    clock = tmp_path / "clock"
    clock.mkdir()
    environment = {**night.environment(), "PATH": f"{clock}:/usr/bin:/bin", "RUNTIME_DIRECTORY": str(tmp_path)}
    codes = []
    for day in ("2026-11-20", "2026-11-21"):
        (clock / "date").write_text(f'#!/bin/sh\ntest "$1" = +%F && echo {day}\n', encoding="utf-8")
        (clock / "date").chmod(0o755)
        subprocess.run(unit.command("ExecStartPre"), env=environment, check=True)
        codes.append(subprocess.run(unit.command("ExecStart"), env=environment, check=False).returncode)
    assert codes == [4, 0]
    assert night.submitted() == ["submit /opt/churn/churn.yaml --date 2026-11-20"] * 2


@pytest.mark.parametrize(("code", "whom"), [(1, "ml-team"), (3, "data-team"), (4, "ml-team")])
def test_under_systemd_mail_goes_to_those_whom_it_concerns(tmp_path: Path, code: int, whom: str) -> None:
    for name, program in (("journalctl", 'echo "$@"'), ("mail", f'cat > {tmp_path}/body; echo "$@" > {tmp_path}/sent')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MONITOR_EXIT_STATUS": str(code)}
    subprocess.run(Unit("sparktf-alert@.service").command("ExecStart"), env=environment, check=True)
    assert (tmp_path / "sent").read_text(encoding="utf-8") == (
        f"-s sparktf-churn: exit code {code} {whom}@example.org\n"
    )
    assert "--unit=sparktf-churn" in (tmp_path / "body").read_text(encoding="utf-8")


# --- Oozie ---

WORKFLOW = ET.parse(SCHEDULES / "oozie/workflow.xml").getroot()
OOZIE = "{uri:oozie:workflow:1.0}"


def oozie_properties() -> set[str]:
    lines = (SCHEDULES / "oozie/job.properties").read_text(encoding="utf-8").splitlines()
    return {line.partition("=")[0] for line in lines if "=" in line and not line.startswith("#")}


def told_by(code: int) -> str:
    """Returns the node where the decision sends a verdict, by the literal words that its cases compare with."""
    for case in WORKFLOW.iter(f"{OOZIE}case"):
        if case.text == f"${{wf:actionData('train')['verdict'] eq '{code}'}}":
            return case.attrib["to"]
    return next(WORKFLOW.iter(f"{OOZIE}default")).attrib["to"]


@pytest.mark.parametrize("code", sorted(TABLE))
def test_oozie_tells_those_whom_the_table_names(code: int) -> None:
    where, action = told_by(code), TABLE[code]
    assert ("data team" in action) == (where == "tell-data-team")
    assert (action == "go on") == (where == "end")
    assert action.startswith("skip") == (where == "tell-kept")


def test_every_way_through_the_workflow_leads_somewhere() -> None:
    nodes = {node.attrib["name"] for node in WORKFLOW if "name" in node.attrib}
    ways = {node.attrib["to"] for node in WORKFLOW.iter() if "to" in node.attrib}
    assert ways == nodes
    ends = {
        action.attrib["name"]: action.findall(f"{OOZIE}ok")[0].attrib["to"]
        for action in WORKFLOW.iter(f"{OOZIE}action")
    }
    assert ends == {"train": "verdict", "tell-kept": "end", "tell-data-team": "failed", "tell-owners": "failed"}


@pytest.mark.parametrize("name", ["workflow.xml", "coordinator.xml"])
def test_all_that_oozie_is_asked_to_fill_in_is_in_the_properties(name: str) -> None:
    text = (SCHEDULES / "oozie" / name).read_text(encoding="utf-8")
    asked = set(re.findall(r"\$\{(\w+)\}", text))
    of_oozie = {"YEAR", "MONTH", "DAY", "date"}
    assert asked
    assert asked <= oozie_properties() | of_oozie
    assert "<name>date</name>" in (SCHEDULES / "oozie/coordinator.xml").read_text(encoding="utf-8")


ACTION_CONF = """\
<?xml version="1.0" encoding="UTF-8" standalone="no"?><configuration>
<property><name>user.name</name><value>churn</value><final>false</final></property>
<property><name>oozie.child.mapreduce.job.tags</name><value>oozie-1a2b</value><final>false</final></property>
</configuration>
"""


@pytest.mark.parametrize("code", sorted(TABLE))
def test_oozie_captures_the_exit_code_and_finds_the_application_by_its_tag(night: Night, code: int) -> None:
    night.ends_with(*[code] * TRIES)
    for script in ("nightly.sh", "oozie/train.sh"):
        shutil.copy(SCHEDULES / script, night.folder)
    conf = night.folder / "action.xml"
    conf.write_text(ACTION_CONF, encoding="utf-8")
    done = subprocess.run(
        ["train.sh", "churn.yaml", DATE],
        env={
            **night.environment(logs=False),
            "PATH": f"{night.folder}:/usr/bin:/bin",
            "OOZIE_ACTION_CONF_XML": str(conf),
        },
        cwd=night.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"verdict={code}\n")
    assert "a line of the run" in done.stderr
    assert set(night.submitted()) == {
        f"submit churn.yaml --date {DATE} --set submit.conf.spark.yarn.tags=sparktf,oozie-1a2b"
    }

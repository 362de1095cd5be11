"""The run directory: the only class that knows the paths of a run."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparktf.errors import ConfigError
from sparktf.topology import NodeId

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"""Names of folders of runs: no "/", no "..", no ":", which HDFS refuses, and not hidden for readers."""

NAME_LENGTH = 200
"""A file system's names end at 255 bytes."""

WAIT_HELP = "wait while another submission owns the run (default: end with 2)"
"""Help of the option `--wait` of every command that submits."""

HISTORY = "_runs"
"""Folder beside those of the names, whose first letter is never "_": a file for each ended run."""

HISTORY_OF_NAME = "name="
"""Prefix of a name's folder in it, as Spark and Hive name partitions."""

RESULT, STATISTICS = "result.json", "statistics.json"
"""Files of a run; its published model has a copy of the second."""

TERMS, EVENTS = "owner", "events"
"""Folders of every run that has begun, by which it is recognised."""

SERVING = "serving"
"""Folder of published models, beside the runs of a name."""

_OWN_ENTRIES = {
    "assets.json",
    "bad_rows",
    "checkpoints",
    "config.yaml",
    EVENTS,
    "last_steps.json",
    "logs",
    "model",
    TERMS,
    "owners.json",
    "plan",
    "report.html",
    RESULT,
    STATISTICS,
    "tensorboard",
}
_ON_ITS_WAY = re.compile(r"^(_(commit|plan|put|swept)-[0-9a-f-]+|\.(probe|tmp)-[0-9a-f]+(-renamed)?)$")
_OBJECTS = "_objects"
_STAGED_MODEL = re.compile(r"^_staged-.+-[0-9a-f]{8}$")

_NAME = re.compile(NAME_PATTERN.removesuffix("$"))
_STEP = re.compile(r"^step-(\d{12})$")


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Paths of one run: `<root>/<name>/<run_id>/...`, on any file system of `sparktf.storage`.

    Raises:
        ConfigError: name or run id cannot name a folder: it would lead out of the root, or be refused late.
    """

    root: str
    name: str
    run_id: str

    def __post_init__(self) -> None:
        check_name(self.name, "name")
        check_run_id(self.run_id)

    @property
    def path(self) -> str:
        return f"{self.root.rstrip('/')}/{self.name}/{self.run_id}"

    @property
    def run(self) -> str:
        """The run's name in messages."""
        return f"{self.name}/{self.run_id}"

    @property
    def config(self) -> str:
        return f"{self.path}/config.yaml"

    @property
    def assets(self) -> str:
        return f"{self.path}/assets.json"

    @property
    def plan(self) -> str:
        return f"{self.path}/plan"

    @property
    def statistics(self) -> str:
        return f"{self.path}/{STATISTICS}"

    @property
    def events(self) -> str:
        return f"{self.path}/{EVENTS}"

    @property
    def tensorboard(self) -> str:
        return f"{self.path}/tensorboard"

    @property
    def logs(self) -> str:
        return f"{self.path}/logs"

    def log(self, trainer: str) -> str:
        """The log of a trainer (`trainer_name`)."""
        return f"{self.logs}/{trainer}.log"

    def bad_rows(self, trainer: str) -> str:
        """The bad rows that a trainer (`trainer_name`) set aside."""
        return f"{self.path}/bad_rows/{trainer}.jsonl"

    @property
    def result(self) -> str:
        return f"{self.path}/{RESULT}"

    @property
    def last_steps(self) -> str:
        """The record of steps that are still to follow the result."""
        return f"{self.path}/last_steps.json"

    @property
    def report(self) -> str:
        return f"{self.path}/report.html"

    @property
    def index(self) -> str:
        """The page of all runs of the name, outside of the run's folder."""
        return f"{self.root.rstrip('/')}/{self.name}/index.html"

    @property
    def history(self) -> str:
        """The run's row in the history of all runs below the root."""
        return f"{self.root.rstrip('/')}/{HISTORY}/{HISTORY_OF_NAME}{self.name}/{self.run_id}.parquet"

    @property
    def owners(self) -> str:
        """The applications that have fenced the run, the last one last."""
        return f"{self.path}/owners.json"

    @property
    def terms(self) -> str:
        """The record of the run's owner."""
        return f"{self.path}/{TERMS}"

    def term(self, number: int) -> str:
        return f"{self.terms}/{number:06d}"

    @property
    def model(self) -> str:
        return f"{self.path}/model"

    @property
    def serving(self) -> str:
        """The published models of this name, outside of the run's folder."""
        return f"{self.root.rstrip('/')}/{self.name}/{SERVING}"

    @property
    def checkpoints(self) -> str:
        return f"{self.path}/checkpoints"

    @property
    def staging(self) -> str:
        """Uploads until they are committed; readers never look here."""
        return f"{self.checkpoints}/_tmp"

    def checkpoint(self, step: int) -> str:
        return f"{self.checkpoints}/step-{step:012d}"

    def staged(self, attempt: int, what: str) -> str:
        """An attempt's upload of one checkpoint or of the model; see `writers_name`."""
        return f"{self.staging}/{attempt:03d}-{what}"


def is_of_a_run(entry: str) -> bool:
    """Whether an entry of this name belongs to a run directory; others belong to somebody else."""
    return entry in _OWN_ENTRIES or is_on_its_way(entry)


def is_of_a_name(path: str) -> bool:
    """Whether a file at a path below the folder of a name, in a store, belongs to one of its runs or published models.

    Args:
        path: Without that folder.
    """
    folder, _, entry = path.partition("/")
    entry = entry.partition("/")[0]
    if entry == _OBJECTS:
        return is_name(folder)
    if folder == SERVING:
        return entry.isdecimal() or _STAGED_MODEL.match(entry) is not None
    return is_name(folder) and is_of_a_run(entry)


def is_on_its_way(entry: str) -> bool:
    """Whether an entry of a run directory is a temporary one, in use or left behind."""
    return _ON_ITS_WAY.match(entry) is not None


def trainer_name(attempt: int, node: NodeId, incarnation: int) -> str:
    """Returns the name of a trainer's files: "002-worker-1"; "002-worker-1.3" for its third successor."""
    return f"{attempt:03d}-{node.role.value}-{node.index}" + (f".{incarnation}" if incarnation else "")


def check_run_id(run_id: str) -> str:
    """Returns a valid run id. Raises `ConfigError` for any other."""
    if run_id == SERVING:
        raise ConfigError(f"--run-id {SERVING} is reserved for the folder of published models: give another one")
    return check_name(run_id, "--run-id")


def chosen_run_id(run_id: str | None, date: str | None) -> str | None:
    """Returns the run id given by `--run-id`, or else by `--date`; None without either.

    Raises:
        ConfigError: it cannot name a folder. Nor can an empty one, such as an unset variable of a shell.
    """
    chosen = date if run_id is None else run_id
    return None if chosen is None else check_run_id(chosen)


def is_name(text: str) -> bool:
    """Whether a text can name a folder of runs."""
    return _NAME.fullmatch(text) is not None and len(text) <= NAME_LENGTH


def check_name(text: str, what: str) -> str:
    """Returns a text that can name a folder of runs.

    Raises:
        ConfigError: it cannot; the message begins with `what`.
    """
    if not is_name(text):
        shown = text if len(text) <= NAME_LENGTH else f"{text[:40]}..."
        raise ConfigError(
            f"{what} {shown!r} cannot name a folder: give up to {NAME_LENGTH} letters, digits, '.', '_' and '-', "
            "of which the first is a letter or a digit"
        )
    return text


def checkpoint_step(folder: str) -> int | None:
    """Returns the step of a checkpoint folder's name, None for other names."""
    found = _STEP.match(folder)
    return int(found.group(1)) if found else None


def writers_name(what: str, writer: NodeId, incarnation: int) -> str:
    """Returns the name of what a leader uploads, a checkpoint ("step-...") or "model".

    A later leader may upload the same one again while the one before, who counts as lost, is still at it.
    """
    return f"{what}.{writer.role.value}-{writer.index}.{incarnation}"


def checkpoint_name(step: int) -> str:
    """Returns the folder name of the checkpoint at a step."""
    return f"step-{step:012d}"

"""The checks that refuse a run before it holds anything: one list, in the order in which they are reported.

The run itself (`SparkSite`), `sparktf check` and `sparktf plan` go through this list, and each runs the checks whose
needs it has. Planning is no check of the list: it comes between the checks that need a plan and those that do not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from sparktf.config.job import JobConfig
from sparktf.driver.code.module import binds, check_code, search_path
from sparktf.driver.output import check_folder, check_output
from sparktf.driver.plan.kept_apart import check_predictions
from sparktf.driver.source.choice import check_may_be_fed
from sparktf.driver.spark.allocation import check_allocation
from sparktf.driver.spark.application import check_slots, check_speculation
from sparktf.driver.spark.cluster_agents import check_engine
from sparktf.driver.spark.encryption import check_encryption
from sparktf.driver.spark.gpus import check_gpus
from sparktf.driver.spark.masters import Slots
from sparktf.errors import PreflightError, SparkTFError, StoragePermissionError
from sparktf.process.supported import installed_servers_complaint
from sparktf.rundir import RunDirectory
from sparktf.storage.file_systems import FileSystems
from sparktf.topology import gang_text


class Basis(Enum):
    """The needs of a check besides the configuration and the slots that its master promises.

    Attributes:
        LISTING: The output may be read.
        WRITING: The output may be written to.
        SPARK: The application: its settings, and the Python of its driver.
        FED: A plan, of which Spark feeds a stream.
        AGENTS: Nodes that are held.
    """

    LISTING = auto()
    WRITING = auto()
    SPARK = auto()
    FED = auto()
    AGENTS = auto()


@dataclass(frozen=True, slots=True)
class Scene:
    """All that is known of a run that has not begun."""

    config: JobConfig  # With its paths normalised
    slots: Slots  # That its master promises
    systems: FileSystems
    has: Collection[Basis] = ()  # The needs that are met
    given_rdd: bool = False  # Whether the run was handed an RDD, which Spark surely feeds
    rundir: RunDirectory | None = None  # None if the run is not known
    # The application's Spark settings; with `Basis.SPARK`
    settings: Mapping[str, str] = field(default_factory=dict)
    leaves_slots: bool = True  # Whether the nodes leave Spark a slot of each executor; with `Basis.AGENTS`


@dataclass
class Findings:
    """The results of all checks."""

    known: list[str] = field(default_factory=list)  # Lines about parts that are in order
    # Parts that need Spark, TensorFlow or writing
    unknown: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # Parts that cannot be checked before a run
    warnings: list[str] = field(default_factory=list)  # Faults that do not refuse the run
    errors: list[SparkTFError] = field(default_factory=list)  # In the order in which a run would meet them

    @contextmanager
    def part(self) -> Iterator[None]:
        """Keeps the error of one part of the check, so that the others are done as well."""
        try:
            yield
        except SparkTFError as error:
            self.errors.append(error)

    def lines(self) -> list[str]:
        """Returns the lines that `sparktf check` prints when nothing is wrong."""
        lines = [f"# {line}" for line in self.known]
        for when, what in (("without --deep", self.unknown), ("before a run", self.left)):
            lines += [f"# not checked {when}: {'; '.join(what)}"] if what else []
        return lines


class RunCheck(NamedTuple):
    """One reason to refuse a run."""

    # Raises the error that refuses the run; adds other results to the findings
    look: Callable[[Scene, Findings], None]
    needs: frozenset[Basis]


def due(has: Collection[Basis], before: Collection[Basis] | None = None) -> Sequence[RunCheck]:
    """Returns the checks whose needs are met, except those whose needs were met at an earlier look, `before`."""
    able = [check for check in CHECKS if check.needs <= {*has}]
    return able if before is None else [check for check in able if not check.needs <= {*before}]


def look_at_run(scene: Scene, found: Findings, before: Collection[Basis] | None = None) -> None:
    """Does the checks that are due, and keeps all errors; see `due`."""
    for check in due(scene.has, before):
        with found.part():
            check.look(scene, found)


def refuse_run(scene: Scene, warn: Callable[[str], None], before: Collection[Basis] | None = None) -> None:
    """Does the checks that are due, and raises the first error, as a run does; see `due`.

    Raises:
        SparkTFError: the run is refused.
    """
    found = Findings()
    try:
        for check in due(scene.has, before):
            check.look(scene, found)
    finally:
        for warning in found.warnings:
            warn(warning)


def _code(scene: Scene, found: Findings) -> None:
    config = scene.config
    path = search_path(config.code_folder)
    for key, file in check_code(config).items():
        prepare = ", with prepare" if key == "model" and binds(config.modules[key], "prepare", path) else ""
        found.known.append(f"{key}: {config.function_of(key)} of {file}{prepare}")


def _engine(scene: Scene, found: Findings) -> None:
    if scene.config.cluster.engine == "tensorflowonspark":
        check_engine()


def _tensorflow(scene: Scene, found: Findings) -> None:
    # Trainers look at their own, but only once executors are reserved.
    if scene.config.cluster.traits.has_servers and (complaint := installed_servers_complaint()):
        raise PreflightError(complaint)


def _slots(scene: Scene, found: Findings) -> None:
    cluster, slots = scene.config.cluster, scene.slots
    # Surely fed by Spark; a DataFrame may be a plain scan, which trainers read themselves.
    is_fed = scene.given_rdd or scene.config.data.mode == "spark"
    check_slots(slots, cluster, feeders=is_fed or None)
    room = "" if slots.total is None else f", which has {slots.total} slots"
    shape = cluster.shape
    roles = f" ({gang_text(shape.members(shape.nodes))})" if len(shape.wanted) > 1 else ""
    found.known.append(f"nodes: {shape.nodes}{roles} on {slots.master.url}{room}")


def _allocation(scene: Scene, found: Findings) -> None:
    cluster = scene.config.cluster
    check_allocation(scene.settings, cluster.nodes, engine=cluster.engine)


def _encryption(scene: Scene, found: Findings) -> None:
    if not scene.slots.master.one_machine:
        warning = check_encryption(scene.settings, scene.config.security.tls, kerberos=scene.systems.hadoop.is_secure)
        found.warnings += filter(None, [warning])


def _gpus(scene: Scene, found: Findings) -> None:
    if not scene.slots.master.runs_in_driver:
        needs = scene.slots.master.gpus_need
        check_gpus(scene.settings, scene.config.cluster, scene.slots.executors, needs=needs)


def _memory(scene: Scene, found: Findings) -> None:
    scene.slots.master.check_memory(scene.settings, scene.config.cluster.node_memory)


def _can_be_written(scene: Scene, found: Findings) -> None:
    path = scene.config.output.path
    check_output(scene.systems.open_runs(path), path)
    found.known.append(f"output: {path} can be written")


def _predictions(scene: Scene, found: Findings) -> None:
    check_predictions(scene.config, scene.systems)


def _can_be_read(scene: Scene, found: Findings) -> None:
    path, rundir = scene.config.output.path, scene.rundir
    storage = scene.systems.open_runs(path)
    try:
        storage.exists(path if rundir is None else rundir.result)
    except StoragePermissionError as error:
        raise PreflightError(f"output.path cannot be read: {error}") from error
    if rundir is not None:
        check_folder(storage, rundir)
    found.unknown.append("whether output.path can be written, since nothing is written there")


def _may_be_fed(scene: Scene, found: Findings) -> None:
    check_may_be_fed(scene.config, "as its stored plan says")  # already checked where a plan is made


def _feeders(scene: Scene, found: Findings) -> None:
    if not found.errors:  # one of them may be that there is no room for the nodes alone
        check_slots(scene.slots, scene.config.cluster, feeders=True)


def _gpus_of_feeders(scene: Scene, found: Findings) -> None:
    if not found.errors and not scene.slots.master.runs_in_driver:
        check_gpus(scene.settings, scene.config.cluster, scene.slots.executors, is_fed=True)


def _speculation(scene: Scene, found: Findings) -> None:
    check_speculation(scene.slots, speculation=scene.settings.get("spark.speculation", "false").lower() == "true")


def _room_beside_nodes(scene: Scene, found: Findings) -> None:
    if not scene.leaves_slots:
        raise PreflightError(
            "this cluster's nodes hold all cores of their executors and leave none for Spark to feed them: begin "
            "with a training that Spark feeds, or use a separate cluster"
        )


def _check(look: Callable[[Scene, Findings], None], *needs: Basis) -> RunCheck:
    return RunCheck(look, frozenset(needs))


CHECKS: Sequence[RunCheck] = (
    _check(_code),
    _check(_engine, Basis.SPARK),
    _check(_tensorflow, Basis.SPARK),
    _check(_slots),
    _check(_allocation, Basis.SPARK),
    _check(_encryption, Basis.SPARK),
    _check(_gpus, Basis.SPARK),
    _check(_memory, Basis.SPARK),
    _check(_can_be_written, Basis.WRITING),
    _check(_predictions),
    _check(_can_be_read, Basis.LISTING),
    _check(_may_be_fed, Basis.FED),
    _check(_feeders, Basis.FED),
    _check(_gpus_of_feeders, Basis.FED, Basis.SPARK),
    _check(_speculation, Basis.FED, Basis.SPARK),
    _check(_room_beside_nodes, Basis.FED, Basis.AGENTS),
)
"""All checks. `Tenure` checks reading and writing, which need ownership of the run, by the same functions."""

"""The files of a run besides its checkpoints, and the check that they can be written at all."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress

from sparktf.clock import Clock
from sparktf.config.job import JobConfig
from sparktf.driver.event_log import EventLog, next_segment
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.stored_plan import load_plan, save_plan
from sparktf.errors import (
    ConfigError,
    CorruptFileError,
    FencedOffError,
    OwnedError,
    PreflightError,
    SparkTFError,
    StorageError,
    StorageNotFoundError,
    StoragePermissionError,
    StorageUnavailableError,
)
from sparktf.knobs import KNOBS
from sparktf.results.events import RunBegun
from sparktf.results.result import Application, RunResult, result_content
from sparktf.rundir import EVENTS, TERMS, RunDirectory, is_of_a_run, is_on_its_way
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.fence import Fence
from sparktf.storage.transactions.last_steps import LastSteps, recorded_steps
from sparktf.storage.transactions.ownership import Ownership
from sparktf.storage.transactions.results import read_result
from sparktf.told import count_in_words

_NAMED = 3
"""Entries of a refused folder that are named."""


def check_output(storage: Storage, path: str) -> None:
    """Refuses an output in which nothing can be written, renamed or deleted.

    Raises:
        PreflightError: with the file system's reason.
        StorageUnavailableError: the file system is away, which says nothing about the path.
    """
    try:
        storage.probe(path)
    except StorageUnavailableError:
        raise
    except StorageError as e:
        raise PreflightError(f"output.path cannot be written: {e}") from e


def _has_plan(storage: Storage, rundir: RunDirectory) -> bool:
    """Whether the file `plan` is a stored plan. Raises `StorageError`."""
    try:
        load_plan(storage, rundir.plan)
    except (StorageNotFoundError, CorruptFileError, ConfigError, ValueError, KeyError, TypeError):
        return False
    return True


def check_folder(storage: Storage, rundir: RunDirectory) -> None:
    """Refuses a run directory with files of somebody else, which the run would replace.

    Raises:
        PreflightError: it is not empty, and no run has begun there; or it cannot be read.
        StorageError: the storage failed.
    """
    try:
        names = {name_of(entry.path) for entry in storage.list(rundir.path)}
    except StorageNotFoundError:
        return
    except StoragePermissionError as e:
        raise PreflightError(f"output.path cannot be read: {e}") from e
    if {TERMS, EVENTS} & names or all(is_on_its_way(name) for name in names):
        return
    there = {name for name in names if not is_on_its_way(name)}
    if there == {name_of(rundir.plan)} and _has_plan(storage, rundir):  # another run's, to be replayed
        return
    # Of a run that was refused before it had an owner, and whose driver ended before it had written its result.
    if there == {name_of(rundir.last_steps)} and recorded_steps(storage, rundir) is not None:
        return
    with suppress(StorageNotFoundError, CorruptFileError):  # of a run that was refused before it had an owner
        result = read_result(storage, rundir.result)
        if (result.name, result.run_id) == (rundir.name, rundir.run_id) and all(map(is_of_a_run, names)):
            return
    found = ", ".join(sorted(names)[:_NAMED])
    raise PreflightError(
        f"{rundir.path} is not empty, but holds no run, only {found}: choose another output.path or run id"
    )


def plan_of_run(
    config: JobConfig,
    storage: Storage,
    rundir: RunDirectory,
    fence: Fence,
    make: Callable[[], Plan],
    say: Callable[[str], None],
) -> Plan:
    """Returns the stored plan of a resumed run, else a new one, which is stored; describes it by `say`.

    Raises:
        ConfigError: the stored plan was made for other data.
        FencedOffError: the run belongs to another submission.
    """
    if storage.exists(rundir.plan):
        plan = load_plan(storage, rundir.plan)
        say(f"resuming with the plan in {rundir.plan}")
    else:
        plan = keep_plan(make(), storage, rundir, fence)
    check_same_plan(config, plan, rundir)
    for line in describe_plan(plan):
        say(line)
    return plan


def check_same_plan(config: JobConfig, plan: Plan, rundir: RunDirectory) -> None:
    """Refuses a stored plan of other data. Raises `ConfigError`."""
    if plan.plan_hash != config.plan_hash():
        raise ConfigError(
            f"run {rundir.run_id} was planned with another data section or train.seed: use another --run-id, "
            f"or the configuration in {rundir.config}"
        )


def keep_plan(plan: Plan, storage: Storage, rundir: RunDirectory, fence: Fence) -> Plan:
    """Stores a run's plan; returns it. Raises `FencedOffError` where the run belongs to another submission."""
    aside = f"{rundir.path}/_plan-{secrets.token_hex(4)}"
    try:
        save_plan(plan, storage, aside)
        fence.place(aside, rundir.plan)
    finally:
        fence.discard(aside)
    return plan


def describe_plan(plan: Plan) -> list[str]:
    """Returns a line for each stream of a plan, and one for the version of a table."""
    lines = [f"data: version {plan.source_version} of the table is read"] if plan.source_version is not None else []
    lines += [f"{stream}: fed by Spark; rows are counted as they come" for stream in plan.staged]
    return lines + [
        f"{stream}: {plan.rows(stream):,} rows in {count_in_words(len(table.rows), 'row group')}, "
        f"{count_in_words(len(plan.block_rows(stream)), 'shuffle block')}, {plan.nbytes(stream) / 1e6:,.1f} MB"
        for stream, table in plan.tables.items()
    ]


def open_events(storage: Storage, fence: Fence, folder: str, clock: Clock, begun: RunBegun) -> EventLog:
    """Returns a log of this driver's own, which goes on where the run's segments end.

    Args:
        fence: Writes the log, in haste: nobody waits for an event, which stays in memory until the next try.
        begun: Its first event, stored at once: readers see by it that an earlier result is not the last word.
    """
    storage.make_dirs(folder)
    log = EventLog(
        fence.put_beside,
        folder,
        clock.wall_s,
        first_segment=next_segment(entry.path for entry in storage.list(folder)),
        writer=secrets.token_hex(4),
        beside=clock.beside,
    )
    log.emit(begun)
    with suppress(StorageError):
        log.flush()
    clock.every("events", KNOBS.events_s, log.keep_up)
    return log


_OWNERS = 20
"""Earlier applications of a run that are remembered."""


class ResultFile:
    """The run's result.json, which belongs to the holder of the run's fence.

    Attributes:
        last_steps: The steps that follow it.
    """

    def __init__(self, storage: Storage, rundir: RunDirectory, fence: Fence, application: Application) -> None:
        """Touches nothing."""
        self.last_steps = LastSteps(storage, rundir, fence)
        self._storage = storage
        self._rundir = rundir
        self._fence = fence
        self._application = application

    def standing(self) -> RunResult | None:
        """Returns the result that this application repeats instead of training, None if there is none.

        Raises:
            PreflightError: the output cannot be read.
            StorageError: the storage failed.
        """
        path = self._rundir.result
        try:
            if not self._storage.exists(path):
                return None
        except StoragePermissionError as e:
            raise PreflightError(f"output.path cannot be read: {e}") from e
        result = read_result(self._storage, path)
        if (result.name, result.run_id) != (self._rundir.name, self._rundir.run_id):
            raise PreflightError(
                f"{path} is the result of {result.name}/{result.run_id}, not of {self._rundir.run}, since the folder "
                "was copied or renamed: choose another run id, or remove the file"
            )
        return result if result.is_repeated_by(self._application) else None

    def check_owner(self) -> None:
        """Refuses an application that lost the run and was started again by YARN: it would take the run back.

        Raises:
            FencedOffError: since its first attempt another application has taken the run over.
            StorageError: the storage failed.
        """
        owners = self._owners() if self._application.attempt > 1 else []
        if self._application.id in owners[:-1]:
            self._fence.give_up()
            raise self._fence.lose()

    def begin(self) -> None:
        """Removes an earlier result once the run is fenced: the run is under way again.

        Raises:
            FencedOffError: another submission owns the run.
            StorageError: the storage failed.
        """
        if (earlier := self._fence.take_in(self._rundir.result)) is not None:
            self._fence.discard(earlier)
        owners = [owner for owner in self._owners() if owner != self._application.id]
        content = json.dumps([*owners[-_OWNERS:], self._application.id]).encode()
        self._fence.put(self._rundir.owners, content)

    def write(self, result: RunResult, steps: Sequence[str] = ()) -> None:
        """Writes the result, replacing an earlier one; without a fence only where nobody else holds the run.

        Args:
            steps: The steps that are to follow, recorded before the result.

        Raises:
            FencedOffError: another submission owns the run, or has decided it.
            StorageError: the storage failed.
        """
        if self._fence.path is None:
            if not self._fence.claim():
                raise FencedOffError(f"another submission has begun the run: nothing is written in {self._rundir.path}")
            if self.standing() is not None:
                self._fence.give_up()
                raise FencedOffError(f"another submission has ended the run: its {self._rundir.result} is not replaced")
        content = result_content(result)
        self.last_steps.announce(content, steps)
        self._fence.put(self._rundir.result, content)

    def _owners(self) -> list[str]:
        path = self._rundir.owners
        owners: list[str] = json.loads(self._storage.read_bytes(path)) if self._storage.exists(path) else []
        return owners


class Tenure:
    """A run in one driver's hands: who owns it, the fence that its changes go through, and its result.

    Attributes:
        fence: From `begin` on; `results`: from the beginning on.
    """

    def __init__(
        self,
        config: JobConfig,
        storage: Storage,
        hasty: Storage,
        rundir: RunDirectory,
        application: Application,
        clock: Clock,
    ) -> None:
        """Touches nothing."""
        self._storage = storage
        self._rundir = rundir
        self._owner = Ownership(storage, hasty, rundir, application, clock, config.timeouts.owner)
        self.fence = Fence(storage, rundir, hasty, self._owner)
        self.results = ResultFile(storage, rundir, self.fence, application)

    def take_up(self, preflight: Callable[[], None], say: Callable[[str], None], *, wait: bool) -> RunResult | None:
        """Makes this driver the run's owner, unless an earlier result is to be repeated, which is returned.

        Tries to become the owner too where steps are left that follow the earlier result.

        Args:
            preflight: Raises the error that refuses the run.
            wait: Wait while another submission owns the run.

        Raises:
            SparkTFError: of `preflight`; of `begin`; or this application has lost the run.
        """
        try:
            check_folder(self._storage, self._rundir)
        except BaseException:
            self.fence.give_up()  # nothing is to be written, the result included
            raise
        repeated = self.results.standing()
        if repeated is not None:
            self._begin_last_steps(say, wait=wait)
            return repeated
        self.results.check_owner()
        preflight()
        return self._begin(say, wait=wait)

    def _begin(self, say: Callable[[str], None], *, wait: bool) -> RunResult | None:
        """Makes this driver the run's owner, before it writes; returns a result that another one has left meanwhile.

        Raises:
            PreflightError: the output cannot be written.
            OwnedError: another submission owns the run.
            FencedOffError: another submission has taken it since.
            StorageError: the storage failed.
        """
        check_output(self._storage, self._rundir.path)
        try:
            self._owner.acquire(say, wait=wait)
        except BaseException:
            self.fence.give_up()  # nothing is to be written, the result included
            raise
        self.fence.hold()
        return self.results.standing()

    def _begin_last_steps(self, say: Callable[[str], None], *, wait: bool) -> None:
        """Makes this driver the run's owner to do steps left after its result. Raises nothing: the verdict stands."""
        try:
            if self.results.last_steps.left():
                self._begin(say, wait=wait)
        except OwnedError as e:
            say(f"the steps after the result are left to another submission: {e}")
        except SparkTFError as e:
            say(f"the steps after the result were not done: {e}")

    def end(self) -> None:
        """Releases the run for the next submission, once all is written."""
        self._owner.release()

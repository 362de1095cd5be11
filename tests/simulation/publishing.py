"""Seeds in which the run publishes its model and keeps its row of the history, while others change the models too."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from simulation import checks
from simulation.disk import File, SimStorage, Way
from simulation.hub import Process
from simulation.site import SimSite, way_of

from sparktf.config.job import JobConfig
from sparktf.driver.gang.site import Voice
from sparktf.driver.hooks import Put
from sparktf.driver.plan.plan import Plan
from sparktf.errors import ConfigError, LifecycleError, StorageError, Verdict
from sparktf.nightly.history import RunRecord, read_history
from sparktf.nightly.night import Night
from sparktf.published.serving import CURRENT, ModelManifest, Serving
from sparktf.results.result import RunResult
from sparktf.rundir import HISTORY, RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.transactions.checkpoints import MANIFEST
from sparktf.wire.uploads import StagedFile

if TYPE_CHECKING:
    from simulation.world import World

_NIGHTS = (1, 4, 6, 9)
"""Last digits of the seeds that publish."""

_DATES = ("2026-09-18", "2026-09-19", "2026-09-20", "2026-09-21")
_WITHIN_S = 40.0
_PAUSE_S = 6.0
_TRIES = 3
_FROZEN_S = (2.0, 8.0, 25.0, 60.0)

_DEATHS = frozenset(("driver-killed", "night-killed", "other-killed", "node-dies", "trainer-dies", "model-raises"))
"""What keeps no run from its row of the history: whoever is submitted next writes what a killed driver has not."""


def is_nightly(seed: int) -> bool:
    """Whether the run of a seed publishes."""
    return seed % 10 in _NIGHTS


def publishing(seed: int, config: JobConfig) -> JobConfig:
    """Returns the configuration of a run that publishes its model, and keeps what became of it."""
    chance = random.Random(f"{seed} publish")
    output = {**config.output.model_dump(), "history": True, "keep_models": chance.choice((None, 1, 2))}
    return JobConfig.model_validate(
        {**config.model_dump(), "output": output, "publish": {"date": chance.choice(_DATES)}}
    )


class SimNight(Night):
    """What a driver does beyond training.

    Attributes:
        keeps_row: Its row of the history was written, as far as it knows.
    """

    def __init__(self, site: SimSite) -> None:
        """Touches nothing."""
        super().__init__(site.file_systems, site.clock, _measure)
        self.keeps_row = False

    def do_last(
        self, step: str, result: RunResult, config: JobConfig, rundir: RunDirectory, put: Put, voice: Voice
    ) -> None:
        """See `Hooks`."""
        warnings: list[str] = []
        super().do_last(step, result, config, rundir, put, voice._replace(warn=warnings.append))
        self.keeps_row = not warnings


def _measure(config: JobConfig, plan: Plan) -> NoReturn:
    raise LifecycleError("no data is checked")


@dataclass(frozen=True)
class OtherModel:
    """A model of another run of the same name; see `Candidate`."""

    storage: Storage
    run_id: str
    date: str

    def stage(self, folder: str) -> str:
        """See `Candidate`."""
        staged, content = f"{folder}/_staged-{self.run_id}", f"model of {self.run_id}".encode()
        self.storage.write_bytes(f"{staged}/weights", content)
        file = StagedFile(name="weights", nbytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        manifest = ModelManifest(
            files=(file,), name="t", run_id=self.run_id, date=self.date, published="", plan_hash="", steps=1
        )
        self.storage.write_bytes(f"{staged}/{MANIFEST}", manifest.model_dump_json().encode())
        return staged


class Act(NamedTuple):
    """What somebody does to the models.

    Attributes:
        by_date: It takes no later day's model's place.
    """

    work: Callable[[], object]
    by_date: bool = False


class Models:
    """The published models of a seed: who changes them beside its run, and what readers see after each change."""

    def __init__(self, world: World) -> None:
        """Nobody has published anything yet."""
        self.others: list[Process] = []
        self._world = world
        self._by_date: dict[str, bool] = {}
        self._serving = Serving(SimStorage(world.disk), world.config.output.path, world.config.name)
        self._current: int | None = None
        self._current_date = ""
        self._highest = 0
        self._known: set[int] = set()

    def begin(self) -> None:
        """Has others change the models at some time."""
        chance = random.Random(f"{self._world.seed} others")
        for number in range(chance.randint(1, 4)):
            process = Process(self._world.hub, f"other-{number}", self._world.seed)
            storage = SimStorage(self._world.disk, _way_of_other(self._world, process))
            acts = [self._act(chance, f"{process}-{act}", storage) for act in range(chance.randint(1, 4))]
            work = partial(self._live, process, chance.uniform(0.0, _PAUSE_S), acts)
            self.others.append(process)
            self._world.hub.at(chance.uniform(0.0, _WITHIN_S), partial(process.spawn, work))

    def _live(self, process: Process, pause_s: float, acts: Sequence[Act]) -> None:
        for act in acts:
            for _ in range(_TRIES):
                self._by_date[process.name] = act.by_date
                try:
                    act.work()
                except ConfigError:
                    break  # nothing to roll back to
                except StorageError:
                    process.sleep(pause_s)
                else:
                    break
            process.sleep(pause_s)

    def _act(self, chance: random.Random, run_id: str, storage: Storage) -> Act:
        serving = Serving(storage, self._world.config.output.path, self._world.config.name)
        model = OtherModel(storage, run_id, chance.choice(_DATES))
        acts = (
            Act(lambda: serving.publish(model, lambda: None), by_date=True),
            Act(lambda: serving.promote(model)),
            Act(serving.rollback),
            Act(lambda: serving.prune(1)),
        )
        return chance.choices(acts, weights=(4, 1, 2, 2))[0]

    def is_of(self, path: str) -> bool:
        """See `site.Models`."""
        return f"{self._serving.path}/" in path or f"/{HISTORY}/" in path

    def changed(self, process: Process) -> None:
        """Looks as a reader does after each change of what lies there."""
        for found in self._seen(process):
            self._world.violate(f"after a call of {process}: {found}")

    def _seen(self, process: Process) -> Iterator[str]:
        versions = self._serving.versions()
        manifests: dict[int, ModelManifest] = {}
        for version in versions:
            for found in checks.whole(self._world, version.folder, ModelManifest):
                yield f"version {version.number}: {found}"
            if isinstance(manifest := checks.manifest_of(self._world, version.folder, ModelManifest), ModelManifest):
                manifests[version.number] = manifest
        numbers, now = sorted(manifests), self._number()
        if len(set(numbers)) < len(versions):
            yield f"a number is there twice: {versions}"
        for number in sorted(set(numbers) - self._known):
            if number <= self._highest:
                yield f"version {number} came after version {self._highest}"
            self._known.add(number)
            self._highest = max(self._highest, number)
        runs = [manifest.run_id for manifest in manifests.values()]
        if len(set(runs)) < len(runs):
            yield f"a run has two versions: {runs}"
        if now != self._current:
            yield from self._pointed(process, now, manifests)

    def _pointed(self, process: Process, now: int | None, manifests: dict[int, ModelManifest]) -> Iterator[str]:
        """Yields what is wrong with what `CURRENT` has just become."""
        manifest = manifests.get(now or 0)
        if manifest is None:
            yield f"{CURRENT} names {now}, and there are {sorted(manifests)}"
            return
        if self._by_date.get(process.name, True) and manifest.date < self._current_date:
            yield f"a model of {manifest.date} took the place of one of {self._current_date}"
        self._current, self._current_date = now, manifest.date

    def _is_last(self, result: RunResult) -> bool:
        """Whether no later driver has written what has become of the run."""
        found = self._world.disk.find(self._world.rundir.result)
        return isinstance(found, File) and RunResult.model_validate_json(found.content) == result

    def _rows(self) -> list[RunRecord]:
        config = self._world.config
        return read_history(SimStorage(self._world.disk), config.output.path, [config.name])

    def _number(self) -> int | None:
        found = self._world.disk.find(f"{self._serving.path}/{CURRENT}")
        return int(found.content) if isinstance(found, File) else None

    def ends(self) -> Iterator[str]:
        """Yields what is wrong with what readers have at the end."""
        if self._current is not None:
            found = next((v for v in self._serving.versions() if v.number == self._current), None)
            if found is None or found.withdrawn:
                yield f"{CURRENT} names {self._current}, which is not in sight"
        told = [one for one in self._world.submissions if one.over and one.result is not None]
        if told and not self._world.faults.kinds - _DEATHS and not self._rows():
            yield f"{told[-1].process} told how the run ended, and the history has no row of it"

    def told(self, result: RunResult, night: SimNight) -> Iterator[str]:
        """Yields what is wrong with what a driver tells that has come to an end."""
        if night.keeps_row and self._is_last(result):
            kept = self._rows()
            if [(row.run_id, row.verdict) for row in kept] != [(result.run_id, int(result.verdict))]:
                yield f"ended with {result.verdict.name}, and the history has {kept}"
        if result.verdict is not Verdict.DONE:
            return
        number, line = result.extra.get("published"), result.extra.get("publishing", "")
        if number is None and not line.startswith("not published"):
            yield f"told that it is done, and of its model: {line or 'nothing'}"
        if number is not None and number not in self._known:
            yield f"told of version {number}, which was never there"


def _way_of_other(world: World, process: Process) -> Way:
    """Returns how the calls of somebody who is no driver reach the storage: he may be killed or frozen at each."""
    through, rng, faults = way_of(world, process), process.rng, world.faults

    def call(what: str, path: str, apply: Callable[[], Any]) -> Any:
        where = f"{process}: {what} {path}"
        if faults.strike("other-killed", where):
            world.hub.at(rng.uniform(0.0, 0.01), process.kill)
        if chance := faults.strike("other-frozen", where):
            world.hub.at(rng.uniform(0.0, 0.01), partial(process.freeze, chance.choice(_FROZEN_S)))
        return through(what, path, apply)

    return call

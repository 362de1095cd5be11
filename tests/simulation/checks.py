"""What must hold, whatever went wrong: each check says in a line what does not."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError
from simulation.disk import File
from simulation.evaluating import DOUBT, WEIGHTS, loss_of, values_of
from simulation.hub import CUT, EPOCH_S
from simulation.strategies import PARAMETER_SERVER

from sparktf.driver.attempt import restart
from sparktf.driver.attempt.commits import epoch_of
from sparktf.errors import ErrorRecord, LinkCutError, Verdict
from sparktf.results.keep import Evaluation
from sparktf.results.result import AttemptResult, EpochRows, RunResult
from sparktf.rundir import RunDirectory, checkpoint_step
from sparktf.sequence import Cursor
from sparktf.storage.transactions.checkpoints import MANIFEST, FileManifest, Manifest

if TYPE_CHECKING:
    from simulation.nodes import Trainer
    from simulation.world import Submission, World

_NOT_FOLLOWED = ("it was not replaced", "it is not restarted", "timeouts.start")
"""For these reasons an attempt under parameter servers ends with the loss of a worker."""

_NEEDED = "are needed"
"""For this reason an attempt of a synchronous gang ends with too few workers, which store what they have."""

_REMEMBERED = "what train.callbacks remember"
"""For this reason it ends without its leader: the others do so, too."""

_NOT_STORED = frozenset(
    ("storage-fails", "storage-loses-answers", "storage-hangs", "storage-slow", "upload-torn", "checkpoint-rots")
)
"""The kinds of faults by which a checkpoint may not be stored, or not be read again."""

_STARTS_S = 8.0
"""So much of `timeouts.start`, at least, is left to whoever follows a lost one: it is told late where to start."""

_FILLED_S = 6.0
"""Within so long a loss is noticed, and all places are filled."""

PAUSED = "paused"
"""What happened to a driver that stood still, and has heard since what its nodes had said."""

Weights = npt.NDArray[np.uint8]

_HEARD_S = 2.0
"""So much later than after `timeouts.heartbeat` a silence may be noticed."""

_M = TypeVar("_M", bound=FileManifest)


def is_guarded(rundir: RunDirectory, path: str) -> bool:
    """Whether only the run's owner may change what is at a path."""
    files = (rundir.config, rundir.owners, rundir.result, f"{rundir.plan}/nodes.json", rundir.history)
    folder, _, name = path.rpartition("/")
    if path in (*files, rundir.model, rundir.plan) or folder == rundir.events:
        return True
    return folder == rundir.checkpoints and checkpoint_step(name) is not None


def published(world: World, target: str) -> Iterator[str]:
    """Yields what is wrong with what has just appeared at a path."""
    if target == world.rundir.model:
        yield from whole(world, target, FileManifest)
        if (content := _content(world, target)) is not None:
            yield from _of_some_time(world, content)
    elif target.startswith(world.rundir.checkpoints):
        yield from whole(world, target, Manifest)
        manifest, content = manifest_of(world, target, Manifest), _content(world, target)
        if isinstance(manifest, Manifest) and content is not None:
            yield from _trained(world, content.sure, manifest.cursor)
            yield from _told_of(world, manifest, content)
            world.commits[manifest.step].append(Commit(manifest.cursor, values_of(content.weights, content.doubt)))


def _of_some_time(world: World, content: Content) -> Iterator[str]:
    """Yields what is wrong with a model's weights: those of the end, or any that may have been the best."""
    cursors = [_end(world)]
    if world.config.train.keep == "best":
        cursors += [Cursor(epoch=epoch + 1) for epoch in range(world.config.train.epochs)]
        cursors += [commit.cursor for commits in world.commits.values() for commit in commits]
    found = [list(_trained(world, content.sure, cursor)) for cursor in cursors]
    if all(found):
        yield from found[0]


class Commit(NamedTuple):
    """A checkpoint that was committed: where the training was, and the metrics of its weights."""

    cursor: Cursor
    values: dict[str, float]


def _told_of(world: World, manifest: Manifest, content: Content) -> Iterator[str]:
    """Yields which counts of a checkpoint's manifest are not those of its weights."""
    aside = sum(_aside_at(world, manifest.cursor.epoch, interval) for interval in manifest.cursor.done)
    trained = int(content.sure.sum(dtype=int))
    if manifest.rows_trained != trained:
        yield f"the manifest tells of {manifest.rows_trained} rows, and the weights of {trained}"
    if manifest.extra.get("set_aside", 0) != aside:
        yield f"the manifest tells of {manifest.extra['set_aside']} rows set aside, and there are {aside}"


def _aside_at(world: World, epoch: int, interval: tuple[int, int]) -> int:
    return int(world.rows.bad[world.rows.at(epoch, interval)].sum())


def is_done(world: World, path: str) -> bool:
    """Whether what has just appeared is the result of a run that is done."""
    found = world.disk.find(path) if path == world.rundir.result else None
    return isinstance(found, File) and RunResult.model_validate_json(found.content).is_final


def told(world: World, submission: Submission) -> Iterator[str]:
    """Yields what is wrong with what a driver has told at its end."""
    result, name = submission.result, submission.process.name
    if result is None:
        yield f"{name} ended without a result: {submission.error}"
        return
    lost = submission.site.rows_lost and ("rows planned" in submission.error or "no worker" in submission.error)
    if submission.error.startswith(("LifecycleError", "RowAccountingError")) and not lost:
        yield f"{name} ended with {submission.error}"
    if (result.verdict is Verdict.DONE) != (not submission.error):
        yield f"{name} told {result.verdict.name} and ended with {submission.error or 'no error'}"
    if result.verdict is Verdict.DONE:
        yield from (f"{name} told that it is done: {found}" for found in _done(world, result))
    if submission.error.startswith("OwnedError"):
        others = (other for other in world.submissions if other is not submission)
        since_s = world.hub.now - world.config.timeouts.owner
        if name not in world.hits and all(other.process.dead and other.ended_s < since_s for other in others):
            yield f"{name} left the run to nobody: {submission.error}"
    elif result.verdict is Verdict.REFUSED and not world.disk_was_full:
        yield f"{name} refused the run: {submission.error}"
    if submission.error.startswith("FencedOffError") and name not in world.hits:
        yield f"{name} lost the run, and nothing had happened to it: {submission.error}"
    if result.verdict is Verdict.DATA_REFUSED and not world.is_refused:
        yield f"{name} refused rows: {submission.error}"
    yield from _attempts(world, submission, result)
    preempted = "node-preempted" in world.faults.kinds
    if preempted:
        yield from _takeovers(submission, result)
    if len(result.attempts) > world.config.train.max_attempts and not preempted:
        yield f"{name} made {len(result.attempts)} attempts"


def _takeovers(submission: Submission, result: RunResult) -> Iterator[str]:
    """Yields what is wrong with the end of a driver whose nodes were taken back, which nothing else happened to."""
    name, least = submission.process.name, restart.IN_VAIN
    given_up = f"the cluster took nodes back {least} times and no checkpoint was stored between" in submission.error
    if given_up and len({attempt.from_step for attempt in result.attempts[1 - least :]}) > 1:
        yield f"{name} was given up, and got on: {submission.error}"
    if not given_up and submission.error.startswith(("NodeLostError", "PeerLostError")):
        yield f"{name} ended for a node that was taken back: {submission.error}"
    for begun in range(len(result.attempts) - least):
        in_vain = result.attempts[begun : begun + least]
        steps = {attempt.from_step for attempt in result.attempts[begun + 1 : begun + least + 1]}
        if len(steps) == 1 and all(attempt.root_cause and attempt.root_cause.taken_back for attempt in in_vain):
            yield f"{name} was not given up at step {steps.pop()}, with nodes taken back {least} times"


def _attempts(world: World, submission: Submission, result: RunResult) -> Iterator[str]:
    """Yields what is wrong with what a driver tells of attempts."""
    name = submission.process.name
    for attempt in result.attempts if result.application == submission.site.application.id else ():
        for found in (*_blame(world, submission, attempt), *_losses(world, submission, attempt)):
            yield f"{name}, attempt {attempt.attempt}: {found}"
    theirs = next(s for s in world.submissions if s.site.application.id == result.application)  # it may be repeated
    for attempt in result.attempts:
        books = ("LifecycleError", "RowAccountingError")
        if any(failure.type in books for failure in attempt.failures) and not theirs.site.rows_lost:
            yield f"{name}, attempt {attempt.attempt}: {[failure.message for failure in attempt.failures]}"
    for attempt in result.attempts:
        cause = attempt.root_cause
        if cause and cause.node == "evaluator 0" and _was_lost_later(world, submission, attempt.attempt, cause):
            yield f"{name}, attempt {attempt.attempt} has ended for its evaluator: {cause.message}"
    for attempt in result.attempts if world.strategy == PARAMETER_SERVER else ():
        cause = attempt.root_cause
        if cause and _is_a_workers_loss(cause) and not any(text in cause.message for text in _NOT_FOLLOWED):
            yield f"{name}, attempt {attempt.attempt} has ended for a worker that is lost: {cause.message}"
        if cause and "chief 0" in cause.message and "timeouts.start" in cause.message and name not in world.hits:
            yield from (f"{name}: {found}" for found in _given_up_at_once(world, submission, attempt.attempt, cause))
    yield from (f"{name}: {found}" for found in _too_few(world, submission, result))
    for attempt in result.attempts[:-1]:
        if attempt.root_cause is not None and attempt.root_cause.type == "NotStoredError":
            yield f"{name} trained again after attempt {attempt.attempt}, which could not be stored"
        if attempt.root_cause is not None and attempt.root_cause.verdict is not Verdict.INFRASTRUCTURE:
            yield f"{name} tried again after attempt {attempt.attempt}: {attempt.root_cause.message}"


def _too_few(world: World, submission: Submission, result: RunResult) -> Iterator[str]:
    """Yields which attempts have ended with too few workers that did not store what they had."""
    if world.strategy == PARAMETER_SERVER or submission.process.name in world.hits:
        return
    if world.faults.kinds & _NOT_STORED or world.disk_was_full:
        return
    for attempt in result.attempts:
        cause = attempt.root_cause
        is_few = cause is not None and any(why in cause.message for why in (_NEEDED, _REMEMBERED))
        if cause and is_few and max(world.commits, default=0) < attempt.to_step:
            yield f"attempt {attempt.attempt} had come to step {attempt.to_step}, and lost it: {cause.message}"


def _given_up_at_once(world: World, submission: Submission, attempt: int, cause: ErrorRecord) -> Iterator[str]:
    """Yields who began to start less than `timeouts.start` before the coordinator was given up that waits for him."""
    for trainer in submission.site.trainers:
        took_s = cause.time_s - EPOCH_S - trainer.begun_s
        if trainer.spec.attempt == attempt and trainer.spec.incarnation and 0 < took_s < _STARTS_S:
            yield f"{trainer.process} was given {took_s:.1f} s to start: {cause.message}"


def _is_a_workers_loss(cause: ErrorRecord) -> bool:
    return cause.verdict is Verdict.INFRASTRUCTURE and not cause.peer and cause.node.startswith("worker")


def _was_lost_later(world: World, submission: Submission, attempt: int, cause: ErrorRecord) -> bool:
    """Whether an evaluator was lost when all nodes of its attempt had been ready."""
    site = submission.site
    trainers = [trainer for trainer in site.trainers if trainer.spec.attempt == attempt]
    ready_s = [site.ready_s.get((attempt, trainer.spec.node)) for trainer in trainers]
    met_s = max((math.inf if time_s is None else time_s for time_s in ready_s), default=math.inf)
    names = {
        name for t in trainers if str(t.spec.node) == cause.node for name in (t.process.name, t.agent.process.name)
    }
    hits_s = [hit.time_s for name in names for hit in world.hits.get(name, ())]
    return cause.verdict is Verdict.INFRASTRUCTURE and min(hits_s, default=0.0) > met_s


def ends(world: World) -> Iterator[str]:
    """Yields what is wrong with the end of a seed."""
    if world.liveness and not world._is_decided():
        last = next((s for s in reversed(world.submissions) if s.over), None)
        yield f"the run is not done although faults have stopped: {last.error if last else 'no driver came to an end'}"


def held(world: World) -> Iterator[str]:
    """Yields what is still held when every driver has ended."""
    for submission in world.submissions:
        for agent in submission.site.agents:
            if not agent.process.dead:
                yield f"agent {agent.process} is held after its driver has ended"
        for trainer in submission.site.trainers:
            if not trainer.process.dead:
                yield f"trainer {trainer.process} lives after its driver has ended"


def _done(world: World, result: RunResult) -> Iterator[str]:
    model, config = world.rundir.model, world.config.train
    if any(rows.set_aside > world.config.data.max_bad_rows for rows in result.rows):
        yield "more rows are set aside than may be"
    yield from whole(world, model, FileManifest)
    if (content := _content(world, model)) is None:
        return
    if result.checkpoint != world.rundir.checkpoint(result.steps):
        yield f"it ends at step {result.steps}, and its last checkpoint is {result.checkpoint}"
    yield from _kept(world, result, content)
    if result.kept is not None:  # the rows that are told are those of all epochs
        content = _content(world, result.checkpoint) or content
    for rows in result.rows:
        yield from _rows_told(world, rows, content)
    all_rows = [rows.epoch for rows in result.rows if rows.complete] == list(range(config.epochs))
    if [rows.epoch for rows in result.rows] != list(range(len(result.rows))):
        yield f"the rows of epochs {[rows.epoch for rows in result.rows]} are told"
    if not all_rows and (config.max_steps is None or result.steps < config.max_steps):
        yield f"it ends at step {result.steps}, and not all rows are trained: {result.rows!r}"
    if config.max_steps is not None and result.steps > config.max_steps + world.surplus_steps:
        yield f"it ends at step {result.steps}, and train.max_steps is {config.max_steps}"
    yield from _evaluated(world, result)


def _rows_told(world: World, rows: EpochRows, content: Content) -> Iterator[str]:
    """Yields what is wrong with what is told of the rows of an epoch."""
    trained, aside = int(content.sure[rows.epoch].sum(dtype=int)), int(world.rows.bad.sum())
    replayed, most = content.twice(rows.epoch), world.replays.most(rows.epoch)
    if not replayed <= rows.replayed <= most:
        may_be = f"{replayed} to {most} may be"
        yield f"{rows.replayed} rows of epoch {rows.epoch} are told as replayed, and {may_be}"
    is_whole = not rows.complete or (rows.fed == rows.planned and rows.set_aside == aside)
    # What Spark feeds is known when it has come, and updates may be enough before.
    counts = range(world.rows.count + 1) if world.is_fed and not rows.complete else (world.rows.count,)
    if not (is_whole and rows.planned in counts and rows.fed == rows.trained + rows.set_aside):
        yield f"the rows of epoch {rows.epoch} are told as {rows!r}"
    if rows.trained != trained:
        yield f"{rows.trained} rows of epoch {rows.epoch} are told as trained, and {trained} are"


def _evaluated(world: World, result: RunResult) -> Iterator[str]:
    """Yields what is wrong with the evaluations that are told: not one of each epoch, or not of its weights."""
    if world.config.cluster.evaluator:
        yield from _evaluated_beside(world, result)
        return
    told, end = [evaluation.epoch for evaluation in result.validation], _end(world)
    if world.rows.validation and told != list(range(end.epoch + bool(end.done))):
        yield f"evaluations of epochs {told} are told"
    for evaluation in result.validation:
        seen = (world.rows.count - int(world.rows.bad.sum())) * (evaluation.epoch + 1)
        is_whole = any(rows.epoch == evaluation.epoch and rows.complete for rows in result.rows)
        if evaluation.rows != world.rows.validation or (is_whole and evaluation.values["seen"] != seen):
            yield f"{evaluation!r} is told, and the weights had seen {seen} rows"


def _evaluated_beside(world: World, result: RunResult) -> Iterator[str]:
    """Yields what is wrong with an evaluator's evaluations: not of commits, or not of the last."""
    for evaluation in result.validation:
        commits = world.commits.get(evaluation.step, [])
        is_one = any(_is_of(evaluation, commit) for commit in commits)
        if evaluation.rows != world.rows.validation or not is_one:
            yield f"{evaluation!r} is told, and the commits at that step are {commits}"
    if result.evaluation_error is None and result.steps not in {found.step for found in result.validation}:
        yield f"it ends at step {result.steps}, which nobody has evaluated"
    if result.evaluation_error is not None and not any("evaluator" in name for name in _hit(world)):
        yield f"nothing had happened to an evaluator: {result.evaluation_error.message}"


def _is_of(evaluation: Evaluation, commit: Commit) -> bool:
    told, true = evaluation.values, commit.values
    is_same = all(told[name] == true[name] or (math.isnan(told[name]) and math.isnan(true[name])) for name in true)
    return is_same and evaluation.epoch == epoch_of(commit.cursor)


def _hit(world: World) -> Iterator[str]:
    """Yields who had something happen to him: trainers also by what happened to their agents."""
    yield from world.hits
    for submission in world.submissions:
        for trainer in submission.site.trainers:
            if trainer.agent.process.name in world.hits or submission.process.name in world.hits:
                yield trainer.process.name


def _kept(world: World, result: RunResult, content: Content) -> Iterator[str]:
    """Yields what is wrong with the weights that are published: not the last, or not the best of what is evaluated."""
    config, kept = world.config.train, result.kept
    known = [found for found in result.validation if not math.isnan(found.values["loss"])]
    # What was evaluated, and could not be stored, went with its attempt.
    known = [found for found in known if found.step in world.commits]
    if kept is None:
        if config.keep == "best" and known and result.evaluation_error is None:
            yield f"the last weights are published, and the best were to be kept: {known}"
        yield from _trained(world, content.sure, _end(world))
        return
    commits = world.commits.get(kept.step) or [Commit(Cursor(epoch=kept.epoch + 1), {})]
    found = [list(_trained(world, content.sure, commit.cursor)) for commit in commits]
    if all(found):
        yield from found[0]
    if (loss := loss_of(content.weights)) != kept.value:
        yield f"{kept!r} is told to be kept, and the loss of what is published is {loss}"
    if best := [other for other in known if other.values["loss"] < kept.value]:
        yield f"{kept!r} is told to be kept, and {best} are better"


def newest_checkpoint(world: World) -> str:
    """Returns the path of the checkpoint with the highest step, whole or not; "" while there is none."""
    folder = world.disk.find(world.rundir.checkpoints)
    steps = [step for name in folder if (step := checkpoint_step(name)) is not None] if isinstance(folder, dict) else []
    return world.rundir.checkpoint(max(steps)) if steps else ""


def _end(world: World) -> Cursor:
    """Returns the position at which the model that is published was."""
    if world.config.train.max_steps is not None and (newest := newest_checkpoint(world)):
        manifest = manifest_of(world, newest, Manifest)
        if isinstance(manifest, Manifest):
            return manifest.cursor
    return Cursor(epoch=world.config.train.epochs)


def _blame(world: World, submission: Submission, attempt: AttemptResult) -> Iterator[str]:
    """Yields what is wrong with the root cause of an attempt: the node that is named is not one that was hit."""
    cause = attempt.root_cause
    if cause is None or cause.node == "driver" or cause.verdict is Verdict.DATA_REFUSED:
        return
    cut = cause.type == LinkCutError.__name__
    if cause.peer and not cut and any(failure.type == LinkCutError.__name__ for failure in attempt.failures):
        yield f"a member is blamed whose link was cut: {cause.message}"
    node = cause.message.rpartition(" lost its peers: ")[2] if cause.peer else cause.node
    node = cause.message.removesuffix(f" {CUT}").rpartition(": ")[2] if cut else node
    trainers = [t for t in submission.site.trainers if t.spec.attempt == attempt.attempt]
    meant = trainers if _is_of_the_gang(cause) else [t for t in trainers if str(t.spec.node) == node]
    names = {name for t in meant for name in (t.process.name, t.agent.process.name)}
    # One that stood still from the attempt's beginning on has no trainer.
    names |= {agent.process.name for agent in submission.site.agents if agent.host == cause.host and not cause.peer}
    hits = [hit for name in names for hit in world.hits.get(name, ())]
    if _was_deaf(world, submission):
        return  # it may have missed what its nodes told
    if "timeouts.progress" in cause.message and any(f.name in world.hits for f in submission.site.feeders):
        return  # nodes wait for what feeders do not bring
    if "timeouts.upload" in cause.message and submission.process.name in world.hits:
        return  # an upload ends when the driver has taken what is told of it, and this one stood still
    if world.strategy != PARAMETER_SERVER and "timeouts.progress" in cause.message:
        yield from _unheard(world, trainers, cause)
    if world.strategy == PARAMETER_SERVER and "timeouts.progress" in cause.message:
        # Training goes on when a worker is lost: only what stands still, or is not heard, holds it up, or one loss
        # after the other, since successors join when all places are filled.
        if _are_lost_all_the_time([hit.time_s for hit in hits if hit.what.endswith("dies")], world, cause):
            return
        hits = [hit for hit in hits if not hit.what.endswith("dies")]
    if not hits:
        yield f"{node} is named as the root cause, and nothing had happened to it: {cause.message}"
    elif attempt.attempt in submission.gang.cut_off:
        return  # its driver lost the run while it still looked for the one that the peers had lost
    elif cause.peer and any(hit.lasts for hit in hits) and not any(hit.what in ("lost", "late") for hit in hits):
        yield f"{cause.node} is blamed for the loss of {node}, which was gone: {cause.message}"


def _unheard(world: World, trainers: Sequence[Trainer], cause: ErrorRecord) -> Iterator[str]:
    """Yields who was silent for longer than `timeouts.heartbeat` when all were found to stand still instead."""
    timeouts, until_s = world.config.timeouts, cause.time_s - EPOCH_S
    newest = {trainer.spec.node: trainer for trainer in trainers}
    for trainer in newest.values():
        for hit in world.hits.get(trainer.process.name, ()):
            is_freeze = hit.what == "trainer-freezes" and hit.lasts
            if is_freeze and until_s - timeouts.progress < hit.time_s < until_s - timeouts.heartbeat - _HEARD_S:
                yield f"{trainer.process} was silent from {hit.time_s:.1f} s on, and nobody missed it: {cause.message}"


def _was_deaf(world: World, submission: Submission) -> bool:
    """Whether something happened to a driver besides that it stood still for less long than nodes wait for it."""
    return any(hit.what != PAUSED for hit in world.hits.get(submission.process.name, ()))


def _are_lost_all_the_time(deaths_s: list[float], world: World, cause: ErrorRecord) -> bool:
    """Whether there was no time, before nothing moved any more, in which all places could be filled."""
    until_s = cause.time_s - EPOCH_S
    since_s = until_s - world.config.timeouts.progress
    times = [since_s, *sorted(time_s for time_s in deaths_s if since_s < time_s < until_s), until_s]
    filled_s = _FILLED_S
    if "agent-away" in world.faults.kinds:  # a stand-in fills it, and takes a while to start
        filled_s += _FILLED_S + world.config.timeouts.replace
    return max(after - before for before, after in itertools.pairwise(times)) < filled_s


def _losses(world: World, submission: Submission, attempt: AttemptResult) -> Iterator[str]:
    """Yields which nodes count as lost more often, while the attempt went on, than something happened to them."""
    site = submission.site
    if _was_deaf(world, submission):
        return  # it may have missed what its nodes told
    for node in {loss.node for loss in attempt.losses}:
        # A worker that was lost while TensorFlow connected to it takes the coordinator with it.
        lost = [loss for loss in attempt.losses if loss.node == node and "connected to it" not in loss.message]
        trainers = [t for t in site.trainers if t.spec.attempt == attempt.attempt and str(t.spec.node) == node]
        # An agent that was gone took the trainer with it that it had, or was to start.
        agents = {t.agent for t in trainers} | {a for a in site.agents if a.host in {loss.host for loss in lost}}
        hit = sum(t.process.name in world.hits for t in trainers)
        # It may be given up, and come again, several times.
        hit += sum(len(world.hits.get(a.process.name, ())) for a in agents)
        if len(lost) > hit:
            yield f"{node} was lost {len(lost)} times, and something had happened to it {hit} times"


def _is_of_the_gang(cause: ErrorRecord) -> bool:
    """Whether a failure says of all nodes alike that one of them is in the way."""
    texts = ("timeouts.start", "timeouts.progress", "another address", "the last checkpoint could not be stored")
    return any(text in cause.message for text in texts)


def whole(world: World, folder: str, kind: type[FileManifest]) -> Iterator[str]:
    """Yields what a folder lacks of what its manifest says."""
    manifest = manifest_of(world, folder, kind)
    if isinstance(manifest, str):
        yield manifest
        return
    for file in manifest.files:
        found = world.disk.find(f"{folder}/{file.name}")
        if not isinstance(found, File):
            yield f"{file.name} is missing"
        elif len(found.content) != file.nbytes or hashlib.sha256(found.content).hexdigest() != file.sha256:
            yield f"{file.name} is not what its manifest says"


def manifest_of(world: World, folder: str, kind: type[_M]) -> _M | str:
    """Returns the manifest of a folder, or why it is none."""
    found = world.disk.find(f"{folder}/{MANIFEST}")
    if not isinstance(found, File):
        return "it has no manifest"
    try:
        return kind.model_validate_json(found.content)
    except ValidationError as error:
        return f"its manifest does not parse: {error}"


class Content(NamedTuple):
    """What is in a model or a checkpoint: how often each row of each epoch is.

    Attributes:
        sure: Without what is in doubt.
        doubt: For executions that broke off, which no position says.
    """

    sure: Weights
    doubt: Weights

    @property
    def weights(self) -> Weights:
        """All that is in it."""
        return self.sure + self.doubt

    def twice(self, epoch: int) -> int:
        """Returns how many rows are in the weights more than once."""
        return int(((self.sure[epoch] == 1) & (self.doubt[epoch] > 0)).sum())


def _content(world: World, folder: str) -> Content | None:
    weights = _array(world, folder, WEIGHTS)
    if weights is None:
        return None
    doubt = _array(world, folder, DOUBT)
    doubt = np.zeros_like(weights) if doubt is None else doubt
    return Content(weights - doubt, doubt)


def _array(world: World, folder: str, name: str) -> Weights | None:
    """Returns what is in a file, or in the files of which each has a part."""
    found, shape = world.disk.find(folder), (world.config.train.epochs, world.rows.count)
    names = sorted(file for file in found if file.partition("-")[0] == name) if isinstance(found, dict) else []
    files = [world.disk.find(f"{folder}/{file}") for file in names]
    content = b"".join(file.content for file in files if isinstance(file, File))
    return np.frombuffer(content, np.uint8).reshape(shape) if len(content) == shape[0] * shape[1] else None


def _trained(world: World, weights: Weights, cursor: Cursor) -> Iterator[str]:
    """Yields which rows a model has not seen as often as its position says."""
    expected = np.zeros_like(weights)
    expected[: cursor.epoch] = 1
    for interval in cursor.done:
        expected[cursor.epoch][world.rows.at(cursor.epoch, interval)] += 1
    expected[:, world.rows.bad] = 0
    for epoch in np.unique(np.nonzero(weights != expected)[0]).tolist():
        wrong = np.nonzero(weights[epoch] != expected[epoch])[0]
        seen, said = int(weights[epoch][wrong[0]]), int(expected[epoch][wrong[0]])
        yield (
            f"{len(wrong)} rows of epoch {epoch} were not trained on as its position says: row {wrong[0]} {seen} "
            f"times instead of {said}"
        )

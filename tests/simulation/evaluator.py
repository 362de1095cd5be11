"""A simulated evaluator: it asks for commits, reads them and tells of them, as `trainer.evaluator` does."""

from __future__ import annotations

from simulation.evaluating import Counts, kept, read_counts, rule_of
from simulation.nodes import Agent
from simulation.roles import AsyncLine, Member

from sparktf.errors import StorageNotFoundError
from sparktf.knobs import KNOBS
from sparktf.wire.control import Action
from sparktf.wire.restore import BestWeights, Committed, NextCommit, NextCommitRequest
from sparktf.wire.trainer_spec import Training
from sparktf.wire.uploads import Finished

_EVALUATION_S = (0.3, 0.8, 0.8, 6.0)


class Evaluator(Member):
    """A node that evaluates what is committed while others train."""

    def __init__(self, line: AsyncLine, agent: Agent, spec: Training) -> None:
        super().__init__(line, agent, spec)
        self._rule = rule_of(spec.config)
        self._takes_s = self.process.rng.choice(_EVALUATION_S)

    def _train(self) -> None:
        self.process.sleep(self.process.rng.uniform(0.5, 3.0))
        self._ready()
        self._update(phase="ready")
        at = 0
        while not (step := self._next()).is_over:
            if step.commit is None:
                self._update(phase="waiting")
                self.process.sleep(KNOBS.next_commit_s)
            else:
                at = step.commit.step
                self._evaluate_commit(step.commit)
        self._model = ()
        if step.best is not None:
            self._export_best(step.best)
        folder = self._folder if step.best is not None else "model"
        self._send(
            Action.FINISHED,
            Finished(**self.spec.sender, step=at, model=self._model, kept=self._kept, folder=folder),
        )
        self._update(phase="finished")
        self._finished = True

    @property
    def _folder(self) -> str:
        return f"best-model.{self.spec.incarnation}"

    def _next(self) -> NextCommit:
        self.strike_called("evaluator-dies", "asks for a commit")
        answer: NextCommit = self._call(Action.NEXT_COMMIT, NextCommitRequest(**self.spec.sender))
        return answer

    def _evaluate_commit(self, commit: Committed) -> None:
        self._raise_perhaps()
        self._update(phase="evaluating", epoch=commit.epoch, step=commit.step, rows_trained=0)
        self.strike_called("evaluator-dies", f"evaluates step {commit.step}", within_s=self._takes_s)
        self.process.sleep(self.process.rng.uniform(0.01, self._takes_s))
        content = self._read(commit.path, commit.files)
        rows = self._validation_rows(commit.epoch)
        self._update(rows_trained=rows)
        self.strike_called("evaluator-dies", f"tells of step {commit.step}")
        self._offer(commit.epoch, commit.step, rows, content)

    def _read(self, path: str, files: tuple[str, ...]) -> list[Counts]:
        try:
            return read_counts(self._storage, path, files, self.line.empty())
        except StorageNotFoundError as error:
            self.line.missed(self, str(error))
            raise

    def _export_best(self, best: BestWeights) -> None:
        assert self._rule is not None
        self.strike_called("evaluator-dies", "exports")
        self._export_as(self._folder, self._read(best.path, best.files))
        self._kept = kept(self._rule, best.evaluation)

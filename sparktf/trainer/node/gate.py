"""The gate: the model that a run exports beside published ones, on the same rows."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping

import numpy as np

from sparktf.config.gate_section import GateConfig
from sparktf.errors import ModelContractError, StorageNotFoundError
from sparktf.results.comparison import Comparison
from sparktf.results.gating import Beside, Floats, Measured, Opponent, Question, draws, judge
from sparktf.results.keep import metric_rule
from sparktf.trainer.model.champion import SAVED_MODEL, Champion
from sparktf.trainer.model.evaluate import Evaluator, RowSource
from sparktf.trainer.model.exchange import Exchange
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.paired import MetricValues, Paired, PairedEvaluator
from sparktf.trainer.model.slices import slice_columns
from sparktf.trainer.node.checkpoint import download
from sparktf.trainer.node.place import Place
from sparktf.wire.model_source import ModelSource

_ELSEWHERE = "another node could not load it: its log says why"


class Gate:
    """Compares models on all nodes that evaluate; the leader alone judges, which takes thousands of resamples."""

    def __init__(
        self, settings: GateConfig, place: Place, model: UserModel, evaluator: Evaluator, exchange: Exchange
    ) -> None:
        """Loads nothing yet; `evaluator` is the model's, warmed up.

        Raises:
            ModelContractError: there is no such metric, it has no known direction, or no tensor has a slice's column.
        """
        self._settings = settings
        self._place = place
        self._model = model
        self._evaluator = evaluator
        self._exchange = exchange
        self._slices = slice_columns(model.spec, settings.slices)
        self._questions = {}
        for name, asked in settings.metrics.items():
            keys = ("gate.metrics", f"gate.metrics.{name}.mode")
            rule = metric_rule(name, asked.mode, evaluator.names(), keys)
            self._questions[rule.metric] = Question(rule, asked)

    def compare(self, feed: RowSource) -> tuple[Comparison | None, dict[str, float], int]:
        """Returns the outcome, all metrics of the model, and their rows; called on all nodes, each with its share.

        The outcome is None on others than the leader.

        Raises:
            StorageError: the champion cannot be downloaded now.
        """
        began_s = time.monotonic()
        spec = self._place.spec
        opponent, champion = self._opponent(spec.champion)
        beside, anchor = self._opponent(spec.anchor)
        others = [other for other in (champion, anchor) if other is not None]
        pair = PairedEvaluator(
            self._model, others, self._evaluator, self._exchange, self._slices, self._settings.seed
        ).evaluate(feed, spec.config.train.validation_batch_size)
        values = MetricValues(self._model, self._evaluator)
        every = {name: float(value[0]) for name, value in values.of(pair.states[""][0].sum(0)[None]).items()}
        if not self._exchange.leads:
            return None, every, pair.rows[""]
        which = None if champion is None else 1
        measured = [m for label in pair.states for m in self._measured(pair, label, values, which)]
        anchored = [] if anchor is None else self._measured(pair, "", values, len(others))
        comparison = judge(
            measured,
            self._questions,
            self._settings,
            opponent,
            Beside(beside, anchored) if spec.anchor is not None else None,
        )
        comparison = comparison.model_copy(update={"seconds": round(time.monotonic() - began_s, 3)})
        return comparison, every, pair.rows[""]

    def _opponent(self, source: ModelSource | None) -> tuple[Opponent, Champion | None]:
        """Returns a published model; None if there is none, or a node could not load it."""
        if source is None:
            return Opponent(), None
        champion, problem = None, ""
        folder = self._place.work / "champion"
        try:
            names = [name for name in source.files if name.startswith(SAVED_MODEL)]
            if not names:
                raise ModelContractError("its SavedModel is missing")
            download(self._place.storage, source.path, names, folder)
            champion = Champion(folder, self._model)
        except StorageNotFoundError:
            problem = "its files are gone"
        except ModelContractError as error:
            problem = str(error)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if int(self._exchange.sum([np.array([bool(problem)], np.int64)])[0][0]):
            champion, problem = None, problem or _ELSEWHERE
        return Opponent(source.label, source.version, problem), champion

    def _measured(self, pair: Paired, label: str, values: MetricValues, beside: int | None) -> list[Measured]:
        """Returns the configured metrics on all rows or on a slice, compared with model number `beside`, if any."""
        states, rows = pair.states[label], pair.rows[label]
        states = states[[0] if beside is None else [0, beside]]
        exact = [values.of(of_model.sum(0)[None]) for of_model in states]
        drawn: Mapping[str, Floats] = {}
        if len(states) > 1 and (not label or rows >= self._settings.min_rows):
            drawn = self._drawn(states, values)
        return [
            Measured(
                metric=metric,
                slice=label,
                rows=rows,
                challenger=float(exact[0][metric][0]),
                champion=float(exact[1][metric][0]) if len(exact) > 1 else None,
                differences=drawn.get(metric),
            )
            for metric in self._questions
        ]

    def _drawn(self, states: Floats, values: MetricValues) -> dict[str, Floats]:
        """Returns the differences of metrics in each resample (paired bootstrap: the same buckets for both models)."""
        used = states[:, states[0, :, -1] > 0]
        weights = draws(used.shape[1], self._settings.seed)
        challenger, champion = (values.of(weights @ of_model) for of_model in used)
        return {name: challenger[name] - champion[name] for name in self._questions}

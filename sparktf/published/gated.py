"""The gate before publishing: the version to compare a run's model with, and the meaning of the outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from sparktf.errors import ErrorRecord, GatedError, ModelContractError, NotComparedError, TornCheckpointError
from sparktf.published.release import Release
from sparktf.published.serving import ModelManifest, Published, Serving, Version
from sparktf.results.comparison import Comparison
from sparktf.results.gating import Levelled, best_version
from sparktf.results.keep import metric_rule
from sparktf.results.result import RunResult
from sparktf.wire.model_source import ModelSource


class FoundModel(NamedTuple):
    """A model that a run may begin from, or be compared with."""

    source: ModelSource
    date: str = ""  # Its day, as YYYY-MM-DD; "" if unknown


def champion_of(serving: Serving, run_id: str) -> FoundModel | None:
    """Returns the published version that a run's model would replace; None without one.

    A version that is not whole is returned without files, since it cannot be compared with.

    Raises:
        StorageError: the storage failed.
    """
    version = serving.champion(run_id)
    if version is None:
        return None
    label = f"version {version.number}"
    try:
        manifest = serving.manifest(version)
    except TornCheckpointError:
        return FoundModel(ModelSource(label=label, path=version.folder, files=(), version=version.number))
    return FoundModel(_source(version, manifest, label), manifest.date)


def anchor_of(
    serving: Serving, champion: ModelSource, last: int, metric: str, mode: Literal["auto", "min", "max"]
) -> FoundModel | None:
    """Returns the best of the last published versions; None if that is the champion, or unknown.

    Args:
        last: The number of versions to look at, up to the champion.
        metric: Decides which one is the best.
        mode: Whether it should be small or large.

    Raises:
        StorageError: the storage failed.
    """
    if champion.version is None:
        return None
    versions = serving.until(champion.version, last)
    known = sorted({known for _, manifest in versions for known in manifest.levels})
    try:
        rule = metric_rule(metric, mode, known, ("gate.metrics", f"gate.metrics.{metric}.mode"))
    except ModelContractError:  # none of these versions was judged by it, or the trainers refuse it by name
        return None
    best = best_version([Levelled(version.number, manifest.levels) for version, manifest in versions], rule)
    if best is None or best == champion.version:
        return None
    version, manifest = next(found for found in versions if found[0].number == best)
    return FoundModel(_source(version, manifest, f"version {best}, the best of the last {last}"), manifest.date)


def _source(version: Version, manifest: ModelManifest, label: str) -> ModelSource:
    files = tuple(file.name for file in manifest.files)
    return ModelSource(label=label, path=version.folder, files=files, version=version.number, run_id=manifest.run_id)


def publish_past_gate(
    serving: Serving, release: Release, result: RunResult, check_owner: Callable[[], None]
) -> Published:
    """Publishes a run's model if it passes the gate; see `Serving.publish`.

    A model that is published already stays published, and one of a later day stays current, whatever the gate decides.

    Raises:
        GatedError: it does not pass; nothing is published.
        NotComparedError: it was not compared with the version that is current now.
    """
    if serving.standing(release) is not None:
        return serving.publish(release, check_owner)
    comparison = result.comparison
    if comparison is None:
        raise NotComparedError(f"gate: the model was not compared{_why(result.evaluation_error)}; {_AGAIN}")

    def check_champion(current: int | None) -> None:
        if current != comparison.champion_version:
            raise NotComparedError(
                f"gate: the model was compared with {comparison.champion or 'no model'}, but "
                f"{'no model' if current is None else f'version {current}'} is published now; {_AGAIN}"
            )

    check_champion(serving.current())
    if not comparison.promote:
        raise GatedError(_in_words(comparison))
    return serving.publish(release, check_owner, check_champion)


_AGAIN = "submit the same run id again: it trains nothing more, and only compares again"


def _why(error: ErrorRecord | None) -> str:
    return "" if error is None else f", since {error.message}"


def _in_words(comparison: Comparison) -> str:
    kept = f"the gate keeps {comparison.champion}" if comparison.champion else "the gate rejects the model"
    return f"{kept}: {comparison.reason}"

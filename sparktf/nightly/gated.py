"""The gate's place before publishing: which version a run's model is compared with, and what its outcome means."""

from __future__ import annotations

from collections.abc import Callable

from sparktf.comparison import Comparison
from sparktf.errors import ErrorRecord, GatedError, NotComparedError, TornCheckpointError
from sparktf.nightly.release import Release
from sparktf.nightly.serving import Published, Serving
from sparktf.nightly.warm_start import FoundModel
from sparktf.result import RunResult
from sparktf.wire.model_source import ModelSource


def champion_of(serving: Serving, run_id: str) -> FoundModel | None:
    """Returns the published version whose place a run's model would take; None where there is none.

    One that is not whole has no files: it is there, and cannot be compared with.

    Raises:
        StorageError: the storage failed.
    """
    version = serving.champion(run_id)
    if version is None:
        return None
    label = f"version {version.number}"
    source = ModelSource(label=label, path=version.folder, files=(), version=version.number)
    try:
        manifest = serving.manifest(version)
    except TornCheckpointError:
        return FoundModel(source)
    update = {"files": tuple(f.name for f in manifest.files), "run_id": manifest.run_id}
    return FoundModel(source.model_copy(update=update), manifest.date)


def publish_past_gate(
    serving: Serving, release: Release, result: RunResult, check_owner: Callable[[], None]
) -> Published:
    """Publishes a run's model if the gate lets it through; see `Serving.publish`.

    What is published already stays so, and a later day's model stays whatever the gate says.

    Raises:
        GatedError: it does not; nothing is published.
        NotComparedError: nothing was compared, or with a version that is not the current one any more.
    """
    if serving.standing(release) is not None:
        return serving.publish(release, check_owner)
    comparison = result.comparison
    if comparison is None:
        raise NotComparedError(f"gate: the model was not compared{_why(result.evaluation_error)}; {_AGAIN}")

    def check_champion(current: int | None) -> None:
        if current != comparison.champion_version:
            raise NotComparedError(
                f"gate: the model was compared with {comparison.champion or 'none'}, and "
                f"{'none' if current is None else f'version {current}'} is published now; {_AGAIN}"
            )

    check_champion(serving.current())
    if not comparison.promote:
        raise GatedError(_in_words(comparison))
    return serving.publish(release, check_owner, check_champion)


_AGAIN = "submit the same run id again: it trains nothing more, and compares anew"


def _why(error: ErrorRecord | None) -> str:
    return "" if error is None else f", since {error.message}"


def _in_words(comparison: Comparison) -> str:
    kept = f"the gate keeps {comparison.champion}" if comparison.champion else "the gate lets nothing through"
    return f"{kept}: {comparison.reason}"

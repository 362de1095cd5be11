"""`python -m sparktf.trainer.tried REPORT`: builds the model that its input names, trains nothing, and reports."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparktf.config.job import JobConfig
from sparktf.config.load import parse_config
from sparktf.feature import FeedSpec
from sparktf.results.keep import keep_rule, metric_rule
from sparktf.trainer.preload import put_off_rare, without_collector
from sparktf.trainer.user_error import reported_error

if TYPE_CHECKING:
    from sparktf.trainer.model.model import UserModel


def main() -> None:
    told = json.load(sys.stdin)
    sys.path[:0] = [path for path in told["path"] if path not in sys.path]
    found: dict[str, Any] = {"error": None, "known": ""}
    try:
        found["known"] = known(told)
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        found["error"] = reported_error(error)
    Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")


def known(told: dict[str, Any]) -> str:
    """Describes the model; "" if that is only known once it trains.

    Raises:
        ModelContractError: it cannot be trained, does not take these features, or lacks a metric.
    """
    put_off_rare()
    with without_collector():
        from sparktf.trainer.model.model import UserModel, is_low_level, load_function  # noqa: PLC0415 - TensorFlow

    config, spec = parse_config(told["config"]), FeedSpec.model_validate(told["spec"])
    function = load_function(config)
    if is_low_level(function):
        return ""
    model = UserModel(function, config, {}, spec, trains=False)
    inputs, targets = (", ".join(f.name for f in features) for features in (spec.inputs, spec.targets))
    said = f"it is built, takes {inputs} and learns {targets}"
    if config.data.validation is None:
        return said
    return f"{said}; its validation metrics are {', '.join(_metrics(model, config))}"


def _metrics(model: UserModel, config: JobConfig) -> list[str]:
    """Returns the names of the validation metrics, all that the configuration names among them.

    Raises:
        ModelContractError: the model has no such metric, or no tensor has a slice's column.
    """
    from sparktf.trainer.model.evaluate import Evaluator  # noqa: PLC0415 - as above
    from sparktf.trainer.model.exchange import ALONE  # noqa: PLC0415 - as above
    from sparktf.trainer.model.slices import slice_columns  # noqa: PLC0415 - as above

    evaluator = Evaluator(model, ALONE, 1)
    evaluator.warm_up()
    names = evaluator.names()
    keep_rule(config.train, names)
    for key, watched in config.train.watched().items():
        metric_rule(watched.metric, watched.mode, names, (f"{key}.metric", f"{key}.mode"))
    if config.gate is not None:
        slice_columns(model.spec, config.gate.slices)
        for name, asked in config.gate.metrics.items():
            metric_rule(name, asked.mode, names, ("gate.metrics", f"gate.metrics.{name}.mode"))
    return names


if __name__ == "__main__":
    main()

"""The gate against one evaluation of the same rows, in one process: both models, their buckets, and the bootstrap.

The evaluation is the one that ends each epoch; it is traced before it is timed. The gate loads the champion, traces
all that it needs, and decides. Where the last weights are exported, it takes the place of the last evaluation.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from _lake import Schema, float_columns, lake_config, write_lake
from _report import Figure, figure

ROWS = 4_000_000
MODELS = {"one layer of 64": (64,), "layers of 1,024, 1,024 and 512": (1024, 1024, 512)}


def build(params: dict[str, Any], assets: dict[str, Any]) -> Any:
    """Returns a compiled model of a click, with the metrics that one usually has."""
    import keras  # noqa: PLC0415 - in the process that measures

    del assets
    x = keras.Input((16,), name="x")
    hidden: Any = x
    for width in params["widths"]:
        hidden = keras.layers.Dense(width, activation="relu")(hidden)
    model = keras.Model(x, keras.layers.Dense(1, "sigmoid", name="y")(hidden))
    model.compile("sgd", "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC(name="auc")])
    return model


def figures(runs: int) -> list[Figure]:
    """Returns the figures of two models, of which the large one gets fewer rows."""
    found = []
    for name, rows in zip(MODELS, (ROWS, ROWS // 4), strict=True):
        # A process of its own: no other benchmark is to have TensorFlow.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pairs: list[tuple[float, float]] = pool.apply(_measured, (name, float_columns(rows), runs))
        label = f"gate, {rows:,} rows, {name}"
        found += [
            figure(f"{label}: an evaluation", [evaluation for evaluation, _ in pairs], unit="s"),
            figure(f"{label}: the gate / an evaluation", [gate / evaluation for evaluation, gate in pairs], unit=""),
            figure(
                f"{label}: what it adds where it is the last evaluation",
                [(gate - evaluation) / evaluation for evaluation, gate in pairs],
                unit="",
                goal="<= 1.2",
            ),
        ]
    return found


def _measured(name: str, schema: Schema, runs: int) -> list[tuple[float, float]]:
    """Returns the seconds of an evaluation and of a gate, by turns."""
    from sparktf.config.gate_section import GateConfig  # noqa: PLC0415 - as all of these: TensorFlow, in this process alone
    from sparktf.driver.plan.planner import plan_source  # noqa: PLC0415
    from sparktf.feed.blocks import PlannedParts  # noqa: PLC0415
    from sparktf.feed.pipeline import NodeFeed  # noqa: PLC0415
    from sparktf.sequence import Stream  # noqa: PLC0415
    from sparktf.storage.file_systems import open_storage  # noqa: PLC0415
    from sparktf.trainer.model.evaluate import Evaluator  # noqa: PLC0415
    from sparktf.trainer.model.exchange import ALONE  # noqa: PLC0415
    from sparktf.trainer.model.export import export_model  # noqa: PLC0415
    from sparktf.trainer.model.model import UserModel  # noqa: PLC0415
    from sparktf.trainer.node.gate import Gate  # noqa: PLC0415
    from sparktf.wire.model_source import ModelSource  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as temporary:
        tempfile.tempdir = temporary  # AutoGraph leaves files behind where no exit handler runs, as in a pool
        folder = Path(temporary)
        config = lake_config(write_lake(folder / "lake", schema), schema)
        config = config.model_copy(update={"params": {"widths": MODELS[name]}})
        plan = plan_source(config, open_storage, _no_filter)
        (share,) = plan.assignments(Stream.TRAIN, 0, [(0, schema.rows)], [""], rebalance=True)
        model = UserModel(build, config, {}, plan.spec)
        export_model(model, {}, folder / "champion")
        version = folder / "champion/saved_model"
        files = tuple(str(path.relative_to(version)) for path in version.rglob("*") if path.is_file())
        evaluator = Evaluator(model, ALONE, config.train.validation_batch_size)
        evaluator.warm_up()
        settings = GateConfig.model_validate({"metrics": {"auc": {"min": 0.5, "tolerance": 0.002}}})
        spec = SimpleNamespace(
            config=config, champion=ModelSource(label="version 1", path=str(version), files=files, version=1)
        )
        place = cast(Any, SimpleNamespace(spec=spec, storage=open_storage(str(version)), work=folder / "work"))

        def seconds(gate: Gate | None) -> float:
            began_s = time.perf_counter()
            with NodeFeed(plan.spec, PlannedParts(plan.spec, share, open_storage)) as feed:
                found = evaluator.evaluate(feed) if gate is None else gate.compare(feed)
            assert found[-1] == schema.rows
            return time.perf_counter() - began_s

        seconds(None)
        return [(seconds(None), seconds(Gate(settings, place, model, evaluator, ALONE))) for _ in range(runs)]


def _no_filter(*arguments: Any) -> list[bool]:
    raise NotImplementedError("the lake has no partitions")


if __name__ == "__main__":
    from _report import report

    report("nightly_gate", figures(3))

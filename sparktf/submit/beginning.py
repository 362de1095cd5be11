"""The files of docs/nights/first-night.md, to begin with: `sparktf init`."""

from __future__ import annotations

from pathlib import Path

from sparktf.submit.new_files import write_new
from sparktf.submit.schedules import schedules_folder

_NIGHTLY = "nightly.sh"

_LAKE_PY = r'''# lake.py
"""Writes a day of made-up customers: python lake.py 2026-11-01, or python lake.py 2026-11-01 cents."""

import datetime
import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 20_000

day = datetime.date.fromisoformat(sys.argv[1])
draw = np.random.default_rng(day.toordinal())
calls, bill = draw.normal(size=(2, ROWS))
plan = draw.integers(3, size=ROWS)
turn = np.radians(20 * day.day)
logit = 2.5 * (np.cos(turn) * calls + np.sin(turn) * bill) + plan - 1
euros = 50 + 8 * bill
table = pa.table(
    {
        "calls": np.float32(10 + 2 * calls),
        "bill": np.float32(100 * euros if "cents" in sys.argv else euros),
        "plan": np.array(["basic", "family", "pro"])[plan],
        "churned": np.float32(draw.random(ROWS) < 1 / (1 + np.exp(-logit))),
    }
)
folder = pathlib.Path(f"lake/date={day}")
folder.mkdir(parents=True, exist_ok=True)
pq.write_table(table, folder / "part-0.parquet")
(folder / "_SUCCESS").touch()  # as Spark and Hadoop mark a partition that is whole
'''

_CHURN_PY = r"""# churn.py
def prepare(df, params):  # runs on Spark, once a night: what it returns reaches build
    return {"plans": [row.plan for row in df.select("plan").distinct().orderBy("plan").collect()]}


def build(params, assets):
    import keras  # here: the driver, which only prepares, is three seconds faster without

    calls, bill = keras.Input((1,), name="calls"), keras.Input((1,), name="bill")
    plan = keras.Input((), name="plan", dtype="string")
    usage = [keras.layers.Rescaling(1 / 2, -5)(calls), keras.layers.Rescaling(1 / 8, -50 / 8)(bill)]
    hidden = keras.layers.Dense(16, "tanh", name="hidden")(keras.layers.Concatenate()(usage))
    code = keras.layers.StringLookup(vocabulary=assets["plans"], name="plans")(plan)
    of_plan = keras.layers.Embedding(len(assets["plans"]) + 1, 1, name="of_plan")(code)
    logit = keras.layers.Add()([keras.layers.Dense(1, name="of_usage")(hidden), of_plan])
    model = keras.Model([calls, bill, plan], keras.layers.Activation("sigmoid", name="churned")(logit))
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=[keras.metrics.AUC(name="auc")])
    return model
"""

_CHURN_YAML = r"""# churn.yaml
name: churn
model: churn:build
data:
  path: lake
  where: date >= '{{date-1}}' AND date <= '{{date}}'
  inputs: {calls: calls, bill: bill, plan: plan}
  targets: {churned: churned}
  validation: {where: "date = '{{date}}'"}   # learns from yesterday's customers, and is measured by today's
  ready:                                     # both days are there, and today's is whole
    window: {folder: "date=%Y-%m-%d", first: "{{date-1}}", last: "{{date}}"}
    success: true
  checks:                                    # what is refused before anything is trained
    refuse:
      columns: {bill: {min: 0, max: 200}, plan: {values: [basic, family, pro]}}
cluster: {workers: 1}
train: {epochs: 2, batch_size: 256, init_from: published}   # goes on from the model that readers have
gate: {metrics: {auc: {min: 0.7, tolerance: 0.005}}}        # and takes its place only if it is no worse
publish: {}
predict: {source: {path: lake, where: "date = '{{date}}'"}, keep: [calls, bill, plan], output: {path: scores}}
output: {path: runs, history: true, report: true}
submit: {master: "local[2]", deploy_mode: client}
"""

FIRST_NIGHT = {"lake.py": _LAKE_PY, "churn.py": _CHURN_PY, "churn.yaml": _CHURN_YAML}
"""A lake to read, a model to train, and a night as a file, as the page has them."""


def begin_nights(folder: Path) -> list[Path]:
    """Writes the files into a folder, which is made; returns their paths.

    Raises:
        ConfigError: one of them is there, or cannot be written; none is replaced.
    """
    nightly = (schedules_folder() / _NIGHTLY).read_bytes()
    contents = {**{name: text.encode() for name, text in FIRST_NIGHT.items()}, _NIGHTLY: nightly}
    return write_new({folder / name: content for name, content in contents.items()}, "name another folder")

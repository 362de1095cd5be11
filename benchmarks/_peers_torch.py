"""What an engineer writes by hand for PyTorch's DDP over gloo, started by pyspark's TorchDistributor.

Usage: _peers_torch.py SPEC.json, in the environment of `make bench-peers`. Each worker reads its share of the files
through pyarrow and packs large batches, as `_handwritten.py` does, keeps to the files' order, leaves rows over where
the workers' files differ in rows, and saves nothing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def train(spec: dict[str, Any]) -> None:
    """Trains as the worker that the environment names, and writes down its times."""
    sys.path.insert(0, spec["here"])
    from _peers_worker import Network, Worker  # noqa: PLC0415 - where the distributor runs this function

    worker = Worker(spec, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    import torch  # noqa: PLC0415 - it looks for its core when imported
    from torch import distributed  # noqa: PLC0415

    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    network = Network(spec["hidden"])
    network.module = torch.nn.parallel.DistributedDataParallel(network.module)
    network.train(((torch.from_numpy(x), torch.from_numpy(y)) for x, y in worker.batches()), worker)
    distributed.destroy_process_group()


def main(spec: dict[str, Any]) -> None:
    """Starts Spark, and the training on it; writes down when the latter began and ended."""
    from pyspark.ml.torch.distributor import TorchDistributor  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.master(f"local[{spec['workers']}]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.executorEnv.PYTHONPATH", spec["here"]).getOrCreate()
    began_s = time.time()
    TorchDistributor(num_processes=spec["workers"], local_mode=False, use_gpu=False).run(train, spec)
    times = {"began": began_s, "end": time.time()}
    (Path(spec["out"]) / "run.json").write_text(json.dumps(times))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))

"""What Ray's guide has an engineer write: Ray Train with PyTorch, and Ray Data, which reads the files.

Usage: _peers_ray.py SPEC.json, in the environment of `make bench-peers`. Ray is told of two cores for each worker, as
its data's own processes need some beside the workers; it keeps no order, leaves rows over and saves nothing.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

COLUMNS = 16


def train(spec: dict[str, Any]) -> None:
    """Trains as one worker, and writes down its times."""
    sys.path.insert(0, spec["here"])
    from _peers_worker import Network, Worker  # noqa: PLC0415 - where Ray runs this function
    from ray import train as ray_train  # noqa: PLC0415

    context = ray_train.get_context()
    worker = Worker(spec, context.get_world_rank(), context.get_world_size())
    import torch  # noqa: PLC0415 - it looks for its core when imported
    from ray.train.torch import prepare_model  # noqa: PLC0415

    torch.set_num_threads(1)
    network = Network(spec["hidden"])
    network.module = prepare_model(network.module)
    shard = ray_train.get_dataset_shard("train")
    batches = shard.iter_torch_batches(batch_size=spec["share"], drop_last=True)
    columns = [f"x{i}" for i in range(COLUMNS)]
    tensors = ((torch.stack([batch[name] for name in columns], dim=1), batch["y"][:, None]) for batch in batches)
    network.train(tensors, worker)


def main(spec: dict[str, Any]) -> None:
    """Starts Ray, and the training on it; writes down when the latter began and ended."""
    import ray  # noqa: PLC0415
    from ray.train import RunConfig, ScalingConfig  # noqa: PLC0415
    from ray.train.torch import TorchConfig, TorchTrainer  # noqa: PLC0415

    ray.init(num_cpus=2 * spec["workers"], include_dashboard=False, log_to_driver=False)
    began_s = time.time()
    TorchTrainer(
        train,
        train_loop_config=spec,
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=spec["workers"], use_gpu=False),
        run_config=RunConfig(storage_path=spec["out"], name="ray"),
        datasets={"train": ray.data.read_parquet(spec["folder"])},
    ).fit()
    times = {"began": began_s, "end": time.time()}
    (Path(spec["out"]) / "run.json").write_text(json.dumps(times))
    ray.shutdown()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))

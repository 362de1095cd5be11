"""`sparktf tensorboard` over runs on HDFS, which TensorBoard itself cannot read."""

from __future__ import annotations

import pytest
from boards import board_of, event_file

from minihadoop import MiniHadoop
from sparktf.hadoop import HadoopConf

EVENTS = "events.out.tfevents.{}.h.1.0"


def test_a_run_on_hdfs_is_shown_and_followed(hadoop: MiniHadoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop.conf_dir()))
    root = f"{HadoopConf.from_folder(hadoop.conf_dir()).default_fs}/boards"
    train = "/boards/churn/2026-11-20/tensorboard/train"
    hadoop.hdfs.put("/boards/churn/2026-11-20/result.json", b"{}")
    hadoop.hdfs.put(f"{train}/{EVENTS.format(1)}", event_file("loss", [(1, 0.5)]))
    try:
        with board_of("churn/2026-11-20", "--output", root, "--reload_interval", "1") as board:
            assert board.shows(lambda: board.scalars("train", "loss") == [(1, 0.5)])
            hadoop.hdfs.put(f"{train}/{EVENTS.format(2)}", event_file("loss", [(2, 0.25)]))
            assert board.shows(lambda: board.scalars("train", "loss") == [(1, 0.5), (2, 0.25)])
    finally:
        hadoop.hdfs.delete("/boards")

"""Predictions keep away from what is read: the folder that is scored once was the one that was replaced."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sparktf.config.job import JobConfig
from sparktf.driver.plan.kept_apart import check_predictions, spot_of
from sparktf.errors import ConfigError
from sparktf.hadoop import HadoopConf
from sparktf.storage.file_systems import FileSystems

HDFS = FileSystems(HadoopConf(properties={"fs.defaultFS": "hdfs://nn:8020"}))


def configured(output: str, **sections: Any) -> JobConfig:
    data = {"path": "/lake/rows", "inputs": {"x": ["x"]}, "targets": {"y": "y"}, **sections.pop("data", {})}
    predict = {"output": {"path": output}, **sections.pop("predict", {})}
    run = {"name": "churn", "model": "m:build", "data": data, "output": {"path": "/runs"}, "predict": predict}
    return JobConfig.model_validate({**run, **sections})


def refusal(output: str, systems: FileSystems | None = None, **sections: Any) -> str:
    """Returns why predictions may not go there; "" where they may."""
    try:
        check_predictions(configured(output, **sections), systems or FileSystems())
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("/lake/rows", "is data.path: /lake/rows"),
        ("file:/lake/rows/", "is data.path"),
        ("/lake/scores/../rows", "is data.path"),
        ("/lake", "is above data.path"),
        ("/", "is above data.path"),
        ("/lake/rows/scores", "is below data.path"),
        ("/runs", "is output.path: /runs"),
        ("/runs/churn/1/model", "is below output.path"),
    ],
)
def test_predictions_at_above_or_below_what_is_read_or_written_are_refused(output: str, said: str) -> None:
    assert f"predict.output.path: {output} {said}" in refusal(output)


@pytest.mark.parametrize("output", ["/lake/rows2", "/lake/row", "/scores", "lake/rows", "hdfs://nn/lake/rows"])
def test_a_folder_of_their_own_is_taken(output: str) -> None:
    assert not refusal(output)


def test_each_folder_that_the_configuration_names_is_kept() -> None:
    assert "is predict.source.path: /days" in refusal("/days", predict={"source": {"path": "/days"}})
    assert "is below data.validation.path" in refusal("/held/x", data={"validation": {"path": "/held"}})
    assert "is above predict.model: /models/14" in refusal("/models", predict={"model": "/models/14"})
    assert "is above train.init_from: /old/model.keras" in refusal("/old", train={"init_from": "/old/model.keras"})


def test_what_a_pattern_may_select_is_kept() -> None:
    pattern = {"source": {"path": "/days/2026-*/{rows,more}"}}
    assert "is predict.source.path" in refusal("/days/2026-11/more", predict=pattern)
    assert "is above" in refusal("/days/2026-11", predict=pattern)
    assert "is below" in refusal("/days/2026-11/rows/x", predict=pattern)
    assert not refusal("/days/scores", predict=pattern)


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "scores").symlink_to(tmp_path / "lake")
    os.symlink(tmp_path, tmp_path / "lake-above")
    source = {"source": {"path": str(tmp_path / "lake")}}
    assert "is predict.source.path" in refusal(str(tmp_path / "scores"), predict=source)
    assert "is below predict.source.path" in refusal(f"{tmp_path}/lake-above/lake/new", predict=source)


@pytest.mark.parametrize("lake", ["/lake", "hdfs://nn/lake", "hdfs://NN:8020/lake", "webhdfs://nn:9870/lake"])
def test_one_cluster_is_one_whatever_protocol_and_port_it_is_reached_by(lake: str) -> None:
    assert "is data.path" in refusal("hdfs://nn/x/../lake", HDFS, data={"path": lake})
    assert not refusal("hdfs://other/lake", HDFS, data={"path": lake})


@pytest.mark.parametrize("lake", ["/lake", "hdfs://nn1:8020/lake", "hdfs://NN2/lake", "webhdfs://nn2:9870/lake"])
def test_a_name_service_and_each_of_its_namenodes_are_one_cluster(lake: str) -> None:
    pair = FileSystems(
        HadoopConf(
            properties={
                "fs.defaultFS": "hdfs://prod",
                "dfs.nameservices": "prod,other",
                "dfs.ha.namenodes.prod": "a,b",
                "dfs.namenode.rpc-address.prod.a": "nn1:8020",
                "dfs.namenode.rpc-address.prod.b": "nn2:8020",
                "dfs.namenode.rpc-address.other": "nn3:8020",
            }
        )
    )
    assert "is data.path" in refusal("hdfs://prod/lake", pair, data={"path": lake})
    assert "is data.path" in refusal("hdfs://nn1/lake", pair, data={"path": lake})
    assert not refusal("hdfs://other/lake", pair, data={"path": lake})
    assert not refusal("hdfs://nn3/lake", pair, data={"path": lake})


def test_what_only_spark_reads_has_a_place_too() -> None:
    assert spot_of("s3a://bucket/a/../lake", HDFS).meets(spot_of("s3a://bucket/lake/day=1", HDFS))
    assert not spot_of("s3a://bucket/lake", HDFS).meets(spot_of("s3a://another/lake", HDFS))


@pytest.mark.parametrize("partition", ["../../x", "a/b", "day=1", "_day", ".day", " ", "a%2f", "a\\b", "a\nb"])
def test_a_partition_is_by_a_plain_column(partition: str) -> None:
    predict = {"output": {"path": "/scores", "partition": partition}}
    with pytest.raises(ValueError, match=r"partition: .* cannot name a folder as it is: give the column"):
        configured("", predict=predict)


def test_a_partition_has_a_column() -> None:
    with pytest.raises(ValueError, match=r"predict\.output\.partition"):
        configured("", predict={"output": {"path": "/scores", "partition": ""}})


@pytest.mark.parametrize("partition", ["date", "Day", "day of week", "päivä", "a.b", "d-1", "ds_"])
def test_plain_names_of_columns_are_taken(partition: str) -> None:
    predict = {"output": {"path": "/scores", "partition": partition}}
    found = configured("", predict=predict).predict
    assert found is not None
    assert found.output.partition == partition

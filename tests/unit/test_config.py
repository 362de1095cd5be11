"""What somebody who writes a configuration notices: what it means, and what is said when it is wrong."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from sparktf.config.data_section import DataConfig, FeatureConfig
from sparktf.config.job import JobConfig
from sparktf.config.load import dump_config, load_config, parse_config
from sparktf.config.nodes import ClusterConfig
from sparktf.config.page import reference_page
from sparktf.config.publish import OutputConfig
from sparktf.config.ready import ReadyConfig
from sparktf.config.shape import walk_sections
from sparktf.config.train import TrainConfig
from sparktf.driver.plan.paths import normalised
from sparktf.errors import ConfigError, SparkTFError, Verdict

ROOT = Path(__file__).parents[2]

MINIMAL = """\
name: digits
model: models.digits:build
data:
  path: lake/digits
  inputs:
    pixels: [pixel_*]
  targets:
    label: label
output:
  path: runs
"""


def refusal(text: str = MINIMAL, *overrides: str, date: str | None = None) -> str:
    """Returns the message that a configuration is refused with."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text, overrides, date, source="c.yaml")
    message = str(caught.value)
    assert "\n" not in message
    return message


def with_lines(*lines: str) -> str:
    return MINIMAL + "".join(f"{line}\n" for line in lines)


# --- what a configuration means ---


def test_a_minimal_file_equals_the_same_configuration_written_in_python() -> None:
    assert parse_config(MINIMAL) == JobConfig(
        name="digits",
        model="models.digits:build",
        data=DataConfig.model_validate(
            {"path": "lake/digits", "inputs": {"pixels": {"columns": ["pixel_*"]}}, "targets": {"label": "label"}}
        ),
        output=OutputConfig(path="runs"),
    )


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(ConfigError, match="epochs: a configuration is frozen"):
        parse_config(MINIMAL).train.epochs = 3


def test_a_section_whose_lines_are_all_commented_out_means_its_defaults() -> None:
    assert parse_config(with_lines("cluster:", "params:")).cluster == ClusterConfig()


def test_model_params_keep_the_types_that_they_are_written_with() -> None:
    text = with_lines(
        "params:",
        "  rate: 1e-3",
        "  layers: [64, 32]",
        "  since: 2026-11-20",
        "  at: 12:30",
        "  code: 007",
        "  big: 131_072",
        "  none: null",
        "  flag: true",
        "  word: 'off'",
    )
    assert parse_config(text).params == {
        "rate": 0.001,
        "layers": [64, 32],
        "since": "2026-11-20",
        "at": "12:30",
        "code": "007",
        "big": 131_072,
        "none": None,
        "flag": True,
        "word": "off",
    }


def test_a_bare_off_is_false_for_a_switch_and_text_where_text_is_asked_for() -> None:
    config = parse_config(with_lines("security: {tls: off}"), ["data.rebalance=off"])
    assert config.data.rebalance is False
    assert config.security.tls == "off"


def test_a_column_may_have_a_name_that_yaml_takes_for_something_else() -> None:
    config = parse_config(MINIMAL, ["data.inputs={no: no, 1: '1', null: 'null'}"])
    assert {name: feature.columns for name, feature in config.data.inputs.items()} == {
        "no": "no",
        "1": "1",
        "null": "null",
    }


def test_sections_can_share_lines_through_anchors() -> None:
    text = with_lines("params:", "  left: &side {units: 8, rate: 0.1}", "  right: {<<: *side, rate: 0.2}")
    assert parse_config(text).params["right"] == {"units": 8, "rate": 0.2}


# --- overrides and templates ---


def test_set_replaces_values_and_makes_missing_sections() -> None:
    config = parse_config(
        MINIMAL, ["train.epochs=3", "data.validation.fraction=0.2", "train.epochs=4", "params.a.b=[1]"]
    )
    assert config.train.epochs == 4
    assert config.data.validation is not None
    assert config.data.validation.fraction == 0.2
    assert config.params == {"a": {"b": [1]}}


@pytest.mark.parametrize(
    ("text", "override", "says"),
    [
        (MINIMAL, "name=null\n...", r"^--set name=null\\n\.\.\.: name is empty: must be text$"),
        (MINIMAL, "na\nme", r"^--set na\\nme: write it as section\.key=value$"),
        (MINIMAL + '"a\\nb": 1\n', "train.epochs=2", r"^configuration: a\\nb is unknown: allowed are "),
    ],
)
def test_an_error_over_several_lines_is_one_line(text: str, override: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_config(text, [override])


def test_set_takes_everything_after_the_first_equals_sign() -> None:
    assert parse_config(MINIMAL, ["data.where=date >= '2026-11-01'"]).data.where == "date >= '2026-11-01'"


def test_templates_are_filled_wherever_there_is_text() -> None:
    text = with_lines("params: {days: ['{{date}}', '{{ date - 7 }}', '{{date+1}}']}")
    config = parse_config(text, ["data.path={{date}}/x", "output.path=runs/{{name}}", "name=d-{{date}}"], "2026-03-01")
    assert config.params == {"days": ["2026-03-01", "2026-02-22", "2026-03-02"]}
    assert config.data.path == "2026-03-01/x"
    assert config.output.path == "runs/d-2026-03-01"


def test_a_dumped_configuration_loads_as_an_equal_one(tmp_path: Path) -> None:
    text = with_lines(
        "params: {rate: 1.0e-7, word: 'off', number: '1e-3', none: null, day: 2026-11-20, text: \"a: b\\n#c\", é: ü}",
        "cluster: {strategy: mirrored, devices: 2}",
        "security: {tls: off}",
    )
    config = parse_config(text, ["data.fill_null={a: '0', b: 0, c: 0.5, d: true}", "data.validation.where=date='x'"])
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(config), encoding="utf-8")
    assert load_config(path) == config
    assert load_config(path).config_hash() == config.config_hash()


# --- what is refused, and how it is said ---


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("train.epoch=3", "train.epoch is unknown: did you mean train.epochs?"),
        ("train.max-steps=3", "train.max-steps is unknown: did you mean train.max_steps?"),
        ("epochs=3", "epochs is unknown: did you mean train.epochs?"),
        (
            "data.inputs.pixels={colums: a}",
            "data.inputs.pixels.colums is unknown: did you mean data.inputs.pixels.columns?",
        ),
        ("data.inputs.p.zzz=a", "data.inputs.p.zzz is unknown: allowed are columns, shape, dtype"),
        ("train.epochs=three", "train.epochs is 'three': must be a whole number"),
        ("train.epochs=2.5", "train.epochs is 2.5: must be a whole number"),
        ("train.epochs=0", "train.epochs is 0: must be more than 0"),
        ("cluster.control_port=70000", "cluster.control_port is 70000: must be at most 65535"),
        *(
            (f"cluster.node_ports={ports}", f"cluster.node_ports: '{ports}': must be two ports from 1 to 65535")
            for ports in ("0-70000", "0-100", "30100-30000", "30000-65536")
        ),
        ("cluster.node_ports=30000", "cluster.node_ports is 30000: must be text"),
        ("cluster.strategy=ring", "must be one of 'single', 'mirrored', 'multi_worker_mirrored' or 'parameter_server'"),
        ("data.tabel=t", "data.tabel is unknown: did you mean data.table?"),
        ("data.table=''", "data.table is '': must be text that is not empty"),
        ("data.source=feeds", "data.source is 'feeds': must be text that matches"),
        ("data.mode=spak", "data.mode is 'spak': must be one of 'auto', 'direct' or 'spark'"),
        ("data.table=t", "data: give one of path, table, sql and source, not path and table"),
        ("data={format: csv, table: t, inputs: {x: x}, targets: {y: y}}", "data: format: csv needs path"),
        ("data.shuffle=perhaps", "data.shuffle is 'perhaps': must be true or false"),
        ("data.inputs={}", "data.inputs is {}: must be a mapping with at least one entry"),
        ("data.sample_weight=3", "data.sample_weight is 3: must be text or a mapping"),
        ("train=3", "train is 3: must be a section with keys of its own"),
        ("data.validation={}", "data.validation: give exactly one of path, where and fraction"),
        ("cluster.ps=1", "cluster: ps: 1 needs strategy: parameter_server"),
        ("cluster.ps_memory_mib=1024", "cluster: ps_memory_mib: 1024 needs strategy: parameter_server"),
        ("cluster.strategy=parameter_server", "needs parameter servers: set ps, to 1 or more"),
        ("params.augment=off", "params.augment: a bare off is ambiguous: write false, or 'off' for the text"),
        ("data.path={{day}}", "data.path: {{day}} is unknown: write {{date}}, {{date-7}} or {{name}}"),
        ("data.path={{date-1}}", "data.path: {{date-1}} needs --date YYYY-MM-DD"),
        ("data.path=a{{date", "data.path: 'a{{date' opens {{ and does not close it"),
        ("name.first=x", "name is 'digits', which has no key first"),
        ("train.epochs={", "the value is not YAML"),
        ("train.epochs", "write it as section.key=value"),
        ("train..epochs=1", "write it as section.key=value"),
    ],
)
def test_a_wrong_override_is_refused_by_its_text_key_and_remedy(override: str, said: str) -> None:
    message = refusal(MINIMAL, override)
    assert message.startswith(f"--set {override}: ")
    assert said in message


def in_python(**changed: Any) -> dict[str, Any]:
    data = {"path": "lake", "inputs": {"x": "x"}, "targets": {"y": "y"}}
    return {"name": "digits", "model": "m:build", "data": data, "output": {"path": "runs"}, **changed}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: JobConfig(**in_python(train={"epoch": 3})), "train.epoch is unknown: did you mean train.epochs?"),
        (lambda: JobConfig(**in_python(nmae="x")), "nmae is unknown: did you mean name?"),
        (lambda: JobConfig(**in_python(name=3)), "name is 3: must be text"),
        (lambda: JobConfig(name="n", model="m:build"), "data is missing: What is read (and 1 more)"),  # type: ignore[call-arg]
        (lambda: JobConfig.model_validate(in_python(train={"epochs": 0})), "train.epochs is 0: must be more than 0"),
        (lambda: JobConfig.model_validate(3), "the configuration is 3: must be a section with keys of its own"),
        (lambda: JobConfig.model_validate_json('{"name": "n"}'), "model is missing: `module:function` that returns"),
        (
            lambda: JobConfig.model_validate_json('{"train": {"epoch": 3}}'),
            "train.epoch is unknown: did you mean train.epochs?",
        ),
        (lambda: TrainConfig.model_validate_json('{"epoch": 3}'), "train.epoch is unknown: did you mean train.epochs?"),
        (lambda: TrainConfig.model_validate_json("{"), "train is '{': Invalid JSON: EOF while parsing an object"),
        (lambda: TrainConfig(epoch=3), "train.epoch is unknown: did you mean train.epochs?"),  # type: ignore[call-arg]
        (lambda: TrainConfig(devices=3), "train.devices is unknown: did you mean cluster.devices?"),  # type: ignore[call-arg]
        (lambda: ReadyConfig(window={}), "data.ready.window.folder is missing: Folder below `data.path`"),  # type: ignore[arg-type]
        (lambda: ClusterConfig(strategy="single", devices=2), "cluster: devices: 2 needs strategy: mirrored"),
        (lambda: FeatureConfig(columns=3), "data.inputs.<name>.columns is 3: must be text or a list"),  # type: ignore[arg-type]
        (
            lambda: JobConfig(**in_python(train=TrainConfig(batch_size=1))),
            "train.batch_size: 1 rows are fewer than the 2 replicas that share them",
        ),
    ],
)
def test_a_configuration_made_in_python_is_refused_as_one_from_a_file(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value).startswith(said)


def test_a_section_is_where_it_says_that_it_is() -> None:
    first: dict[type[BaseModel], str] = {}
    for key, section in walk_sections(JobConfig):
        first.setdefault(section, key)
    assert len(first) > 20
    assert {section: getattr(section, "KEY", None) for section in first} == first


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            "data.rebalance=false",
            r"data\.rebalance: off cannot be replayed .* under cluster\.strategy: parameter_server, .*: leave",
        ),
        ("train.replicas_to_aggregate=4", r"4 is more than the workers there are: .* at most cluster\.workers: 3"),
    ],
)
def test_what_updates_that_do_not_wait_for_each_other_cannot_do_is_refused(override: str, said: str) -> None:
    asynchronous = with_lines("cluster: {strategy: parameter_server, workers: 3, ps: 1}", "train: {batch_size: 1}")
    assert parse_config(asynchronous).cluster.nodes == 5
    assert re.search(said, refusal(asynchronous, override))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("data.validation=null", r"cluster\.evaluator: true needs rows to evaluate on: give data\.validation"),
        ("data.mode=spark", r"data\.mode: spark is read through Spark, and an evaluator reads files itself"),
        ("data.format=orc", r"data\.format: orc is read through Spark, and an evaluator reads files itself"),
    ],
)
@pytest.mark.parametrize("strategy", ["single", "multi_worker_mirrored"])
def test_what_an_evaluator_cannot_do_is_refused(strategy: str, override: str, said: str) -> None:
    text = with_lines(f"cluster: {{strategy: {strategy}, workers: 3, evaluator: true}}")
    evaluated = ["data.validation.fraction=0.2"]
    cluster = parse_config(text, evaluated).cluster
    assert cluster.nodes == cluster.replicas + 1 == {"single": 2}.get(strategy, 4)
    with pytest.raises(ConfigError, match=said):
        parse_config(text, [*evaluated, override])


def test_workers_that_make_every_update_together_anyway_are_not_told_how_many() -> None:
    said = (
        "c.yaml: train.replicas_to_aggregate: 2 needs cluster.strategy: parameter_server; under multi_worker_mirrored"
    )
    assert refusal(MINIMAL, "train.replicas_to_aggregate=2").startswith(said)


def test_a_gang_has_as_many_workers_left_as_an_update_takes() -> None:
    cluster = "cluster: {strategy: parameter_server, workers: 3, ps: 1, min_workers: 1}"
    assert parse_config(with_lines(cluster, "train: {replicas_to_aggregate: 2}")).shape.fewest == 4
    assert parse_config(with_lines(cluster)).shape.fewest == 3


@pytest.mark.parametrize(
    ("cluster", "fewest", "said"),
    [
        ("workers: 2", 3, "3 is more than the workers there are: set it to at most cluster.workers: 2"),
        ("strategy: mirrored", 2, "2 is more than the workers there are: set it to at most cluster.workers: 1"),
        (
            "strategy: parameter_server, ps: 1, workers: 3",
            2,
            "2 is for workers that make each update together: under cluster.strategy: parameter_server set "
            "cluster.min_workers",
        ),
        (
            "workers: 3, collectives: tensorflow",
            2,
            "2 needs sparktf's own connections, since over TensorFlow's collectives the loss of any worker ends the "
            "attempt: set cluster.collectives: sparktf, or leave it out",
        ),
    ],
)
def test_workers_that_are_never_there_or_never_lost_cannot_be_too_few(cluster: str, fewest: int, said: str) -> None:
    text = with_lines(f"cluster: {{{cluster}}}")
    assert parse_config(text, ["train.min_workers=1"]).train.min_workers == 1
    assert refusal(text, f"train.min_workers={fewest}") == f"c.yaml: train.min_workers: {said}"


def test_an_attempt_begins_with_as_many_workers_as_it_trains_with() -> None:
    text = with_lines("cluster: {workers: 4, min_workers: 2}", "train: {min_workers: 3}")
    assert parse_config(text).shape.fewest == 3


def test_an_error_in_the_file_names_the_file() -> None:
    assert refusal(with_lines("train: {epoch: 3}")) == "c.yaml: train.epoch is unknown: did you mean train.epochs?"


def test_of_several_errors_the_unknown_key_comes_first_and_the_others_are_counted() -> None:
    text = MINIMAL.replace("path: lake", "pth: lake") + "train: {epochs: 0}\n"
    assert refusal(text) == "c.yaml: data.pth is unknown: did you mean data.path? (and 1 more)"


def test_a_missing_key_is_named_with_what_it_means() -> None:
    message = refusal(MINIMAL.replace("  path: runs\n", "  progress_seconds: 1\n"))
    assert message.startswith("c.yaml: output.path is missing: Root of all runs")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "c.yaml: is empty"),
        ("- name", "c.yaml: is ['name']: a configuration is a mapping"),
        ("name: a\nmodel: b\nname: c", "c.yaml: line 3: name is given twice"),
        ("data:\n  path: {{date}}", "c.yaml: line 2: a key must be text"),
        ("a: b: c", "c.yaml: line 1: mapping values are not allowed here"),
        ("name: a\n---\nname: b", "c.yaml: line 2: expected a single document"),
        ("a: &x [*x]", "c.yaml: line 1: an anchor contains itself"),
        ("a: !!python/name:os.system", "c.yaml: line 1: tag"),
    ],
)
def test_what_is_not_plain_yaml_is_refused_with_its_line(text: str, said: str) -> None:
    assert refusal(text).startswith(said)


@pytest.mark.parametrize("date", ["2026-13-01", "20261120", "yesterday", "2026-11-20T00:00"])
def test_a_date_that_is_no_iso_day_is_refused(date: str) -> None:
    assert refusal(date=date) == f"--date {date}: must be a day of the calendar as YYYY-MM-DD"


def test_a_configuration_knows_the_day_it_was_read_for(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(MINIMAL, encoding="utf-8")
    dated = load_config(path, date="2026-11-20")
    assert normalised(dated, str).date == datetime.date(2026, 11, 20)
    assert dated.code_folder == tmp_path
    assert load_config(path).date is None
    assert dated == load_config(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read: No such file"):
        load_config(tmp_path / "absent.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"binary\.yaml: is not a text file in UTF-8"):
        load_config(tmp_path / "binary.yaml")


def test_a_config_error_is_a_value_error_with_the_verdict_refused() -> None:
    with pytest.raises(ValueError, match=r"train\.epochs") as caught:
        parse_config(MINIMAL, ["train.epochs=x"])
    assert isinstance(caught.value, SparkTFError)
    assert caught.value.verdict is Verdict.REFUSED


# --- what ships with the project ---


@pytest.mark.parametrize("path", sorted((ROOT / "jobs" / "conf").glob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_configuration_is_valid(path: Path) -> None:
    load_config(path, date="2026-11-20")


def test_the_reference_page_is_generated_from_the_current_models() -> None:
    page = (ROOT / "docs" / "use" / "configuration.md").read_text(encoding="utf-8")
    assert page == reference_page(), "docs/use/configuration.md is out of date: run make docs"


def test_the_reference_page_has_what_a_section_says_as_text_not_as_code() -> None:
    assert not [line for line in reference_page().splitlines() if line.startswith("    ")]


def without_path(*lines: str) -> JobConfig:
    """Returns the minimal configuration with other lines in place of `data.path`."""
    return parse_config(MINIMAL.replace("  path: lake/digits\n", "".join(f"  {line}\n" for line in lines)))


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("path: lake", "path"),
        ("table: sales.orders", "table"),
        ("sql: select * from t", "sql"),
        ("source: feeds:rows", "source"),
        ("mode: auto", None),
    ],
)
def test_data_is_named_in_one_of_four_ways_or_handed_over(line: str, key: str | None) -> None:
    config = without_path(line)
    assert config.data.source_key == key
    assert normalised(config, lambda path: f"/{path}").data.path == ("/lake" if key == "path" else None)
    assert parse_config(dump_config(config)) == config


def test_a_plan_belongs_to_its_source() -> None:
    lines = [["path: lake"], ["path: lake", "format: orc"], ["path: lake", "mode: spark"], ["table: t"], ["sql: t"]]
    assert len({without_path(*line).plan_hash() for line in lines}) == len(lines)


def test_the_version_of_a_table_belongs_to_its_plan_and_changes_no_other_one() -> None:
    lines = [["table: t"], ["table: t", "version: 3"], ["table: t", "timestamp: 2026-11-20"]]
    assert len({without_path(*line).plan_hash() for line in lines}) == len(lines)
    section = {"table": "sales", "inputs": {"x": "x"}, "targets": {"y": "y"}}
    config = JobConfig.model_validate({"name": "t", "model": "m:build", "output": {"path": "/o"}, "data": section})
    assert config.plan_hash() == "274becb36ae150d5", "runs that began before there were versions go on"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["table: t", "version: 3", "timestamp: 2026-11-20"], "data: give one of version and timestamp, not both"),
        (["path: lake", "version: 0"], "data: version .* a path of Parquet files has none: it goes with table, or "),
        (["sql: select 1", "timestamp: 2026-11-20"], "data: timestamp .* and sql has none"),
        (["source: feeds:rows", "version: 3"], "data: version .* and source has none"),
        (["mode: auto", "version: 3"], r"data: version .* and the data given to train\(\) has none"),
        (["table: t", "timestamp: yesterday"], "data.timestamp: must be a date or a time as in 2026-11-20T02:00:00"),
        (["table: t", "version: -1"], "data.version"),
    ],
)
def test_versions_are_of_tables(lines: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        without_path(*lines)


def test_a_day_may_choose_the_version_of_a_table_that_is_scored() -> None:
    source = "\npredict: {source: {table: t, timestamp: '{{date}}T02:00'}, output: {path: scores}}\n"
    asked = parse_config(MINIMAL + source, date="2026-11-20").predict
    assert asked is not None and asked.source is not None
    assert asked.source.timestamp == "2026-11-20T02:00"
    with pytest.raises(ConfigError, match="sql has none"):
        parse_config(MINIMAL + source.replace("table: t", "sql: select 1"), date="2026-11-20")


def test_other_formats_than_parquet_tfrecord_and_tables_of_parquet_cannot_be_read_directly() -> None:
    says = "data: mode: direct needs format: parquet, tfrecord, delta or iceberg, not orc"
    with pytest.raises(ConfigError, match=says):
        without_path("path: lake", "format: orc", "mode: direct")


def test_what_spark_is_told_does_not_change_the_plan() -> None:
    asked = ["submit.queue=ml", "submit.conf.spark.executor.cores=4", "cluster.trainer_memory_mib=4096"]
    assert parse_config(MINIMAL, asked).plan_hash() == parse_config(MINIMAL).plan_hash()


def test_settings_of_spark_keep_their_dots_and_are_text() -> None:
    conf = parse_config(MINIMAL, ["submit.conf.spark.a.b=true", "submit.conf.spark.a=3"]).submit.conf
    assert conf == {"spark.a.b": "true", "spark.a": "3"}


def test_cluster_mode_needs_a_cluster() -> None:
    with pytest.raises(ConfigError, match=r"local\[2\] needs deploy_mode: client"):
        parse_config(MINIMAL, ["submit.master=local[2]"])
    with pytest.raises(ConfigError, match="spark://there:7077 needs deploy_mode: client"):
        parse_config(MINIMAL, ["submit.master=spark://there:7077"])


def test_the_best_weights_cannot_be_kept_without_validation() -> None:
    with pytest.raises(ConfigError, match=r"train\.keep: best needs validation metrics .*: give data\.validation"):
        parse_config(MINIMAL, ["train.keep=best"])
    assert parse_config(MINIMAL, ["train.keep=best", "data.validation.fraction=0.2"]).train.keep == "best"


def test_options_go_with_files_that_spark_reads_and_change_no_plan_where_there_are_none() -> None:
    def data(**settings: Any) -> DataConfig:
        return DataConfig.model_validate({"inputs": {"x": "x"}, "targets": {"y": "y"}, **settings})

    csv = data(path="lake", format="csv", options={"header": True, "sep": ";", "maxColumns": 7, "nullValue": "-"})
    assert csv.reader_options == {"header": "true", "sep": ";", "maxColumns": "7", "nullValue": "-"}
    for wrong in ({"table": "t"}, {"path": "lake", "format": "tfrecord"}):
        with pytest.raises(ValueError, match=r"options are for Spark's reader of files"):
            data(options={"header": True}, **wrong)
    plain = parse_config(MINIMAL)
    assert parse_config(MINIMAL, ["data.options={}"]).plan_hash() == plain.plan_hash()
    assert parse_config(MINIMAL, ["data.options={mergeSchema: true}"]).plan_hash() != plain.plan_hash()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"targets": {"y": "y", "z": "z"}}, "train.class_weight is for a model with one output"),
        ({"sample_weight": "w"}, "train.class_weight and data.sample_weight both weight the rows"),
    ],
)
def test_classes_weigh_where_there_is_one_output_and_no_other_weight(change: dict[str, Any], said: str) -> None:
    sections: dict[str, Any] = {
        "name": "t",
        "model": "m:build",
        "data": {"path": "/lake", "inputs": {"x": "x"}, "targets": {"y": "y"}},
        "output": {"path": "/runs"},
        "train": {"class_weight": {"0": 1, 1: 4.5}},
    }
    config = JobConfig.model_validate(sections)
    assert config.train.class_weight == {0: 1.0, 1: 4.5}
    assert parse_config(dump_config(config)) == config
    assert "train.class_weight" in config.train.only_for_built_models()
    with pytest.raises(ConfigError, match=said):
        JobConfig.model_validate({**sections, "data": {**sections["data"], **change}})
    with pytest.raises(ConfigError, match=r"train.class_weight.1"):
        JobConfig.model_validate({**sections, "train": {"class_weight": {1: -1.0}}})


def test_the_number_of_classes_is_of_one_target() -> None:
    sections: dict[str, Any] = {
        "name": "t",
        "model": "m:build",
        "data": {"path": "/lake", "inputs": {"x": "x"}, "targets": {"y": "y"}},
        "output": {"path": "/runs"},
        "train": {"classes": 3},
    }
    config = JobConfig.model_validate(sections)
    assert parse_config(dump_config(config)) == config
    assert config.train.only_for_built_models() == ("train.classes",)
    for change in ({"train": {"classes": 1}}, {"data": {**sections["data"], "targets": {"y": "y", "z": "z"}}}):
        with pytest.raises(ConfigError, match=r"train\.classes"):
            JobConfig.model_validate({**sections, **change})

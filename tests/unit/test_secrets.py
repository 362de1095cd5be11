"""Where secrets must not show up: errors, text forms, what is shown or stored; and certificates that a run outlives."""

from __future__ import annotations

import datetime
import pickle
import time

import cloudpickle
import pytest
from cryptography import x509
from pydantic import ValidationError

from sparktf.config.load import dump_config, parse_config, show_config
from sparktf.config.submit import SubmitConfig
from sparktf.config.yaml import load_yaml
from sparktf.errors import ConfigError, ErrorRecord
from sparktf.executor.agent import AgentSettings
from sparktf.executor.feeder import FeederSettings
from sparktf.hadoop import HadoopConf
from sparktf.message import Message
from sparktf.redaction import REDACTED
from sparktf.sequence import Stream
from sparktf.wire.certificates import new_tls_material
from sparktf.wire.control import Bootstrap
from sparktf.wire.scored_model import ScoredModel
from sparktf.wire.security import ControlAccess

NOW = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
SECRET = "hunter2-hunter2"
CONFIG = """\
name: churn
model: models.churn:build
data: {path: /lake/customers, inputs: {age: age}, targets: {churned: churned}}
output: {path: /models/runs}
"""


# --- pydantic ---


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (ControlAccess, {"secret": [SECRET], "location": "grpc://h:1"}),
        (ControlAccess, {"secret": SECRET, "location": "grpc://h:1", "unknown": SECRET}),
        (Bootstrap, {"access": {"secret": SECRET}}),
        (SubmitConfig, {"conf": {"spark.ssl.keyPassword": [SECRET]}}),
        (ErrorRecord, {"message": [SECRET]}),
    ],
)
def test_what_is_wrong_with_a_message_is_told_without_its_content(
    kind: type[Message], wrong: dict[str, object]
) -> None:
    with pytest.raises((ValidationError, ConfigError)) as caught:
        kind.model_validate(wrong)
    assert SECRET not in str(caught.value)


def test_what_goes_to_the_nodes_has_no_text_form_with_a_secret() -> None:
    tls = new_tls_material(NOW)
    access = ControlAccess(location="grpc+tls://h:1", secret=SECRET, tls=tls)
    settings = AgentSettings(access, "", "0", "m", heartbeat_s=1, driver_lost_s=1, nursery="off")
    for text in (repr(settings), str(settings), repr(FeederSettings(access, 1, Stream.TRAIN, 0, 1.0)), f"{access}"):
        assert SECRET not in text
        assert tls.key not in text


def test_the_jvms_hadoop_configuration_keeps_its_keys_out_of_text_forms() -> None:
    assert SECRET not in repr(HadoopConf(properties={"fs.s3a.secret.key": SECRET}))


def test_a_closure_leaves_hadoops_keys_behind() -> None:
    keys = {"fs.s3a.secret.key": SECRET, "hive.metastore.uris": "thrift://h:9083"}
    hadoop = HadoopConf(properties={"fs.defaultFS": "hdfs://nn:8020", **keys})
    model = ScoredModel(folder="/m", files=(), key="k", hadoop=hadoop, threads=1, signature="serving_default", tags=())
    content = cloudpickle.dumps(model)
    assert SECRET.encode() not in content
    assert pickle.loads(content).hadoop.properties == {"fs.defaultFS": "hdfs://nn:8020"}
    assert hadoop.properties == {"fs.defaultFS": "hdfs://nn:8020", **keys}, "the driver has them still"


# --- what is shown and stored ---

SECRETS = """\
params:
  password: hunter2-hunter2
  pin: {secret: 4711, of: me}
  store: {api_key: hunter2-hunter2, url: 'https://me:hunter2-hunter2@store/x'}
  tokenizer: wordpiece
  max_tokens: 512
  rate: 0.1
submit:
  conf:
    spark.ssl.keyPassword: hunter2-hunter2
    spark.hadoop.fs.s3a.access.key: hunter2-hunter2
    spark.driver.extraJavaOptions: -Xss4m -Djavax.net.ssl.trustStorePassword=hunter2-hunter2 -Da=b
    spark.sql.shuffle.partitions: 8
"""


def test_a_configuration_is_shown_and_stored_without_its_secrets_and_is_still_the_same_one() -> None:
    config = parse_config(CONFIG + SECRETS)
    for text in (show_config(config), repr(config), str(config)):
        assert SECRET not in text
        assert "4711" not in text
    shown = load_yaml(show_config(config))
    assert shown["params"] == {
        "password": REDACTED,
        "pin": {"secret": REDACTED, "of": "me"},
        "store": {"api_key": REDACTED, "url": f"https://me:{REDACTED}@store/x"},
        "tokenizer": "wordpiece",
        "max_tokens": 512,
        "rate": 0.1,
    }
    assert shown["submit"]["conf"]["spark.driver.extraJavaOptions"] == (
        f"-Xss4m -Djavax.net.ssl.trustStorePassword={REDACTED} -Da=b"
    )
    assert shown["submit"]["conf"]["spark.sql.shuffle.partitions"] == "8"
    assert parse_config(dump_config(config)) == config, "what is shipped is whole"


def test_a_configuration_that_was_shown_cannot_pass_for_the_one_with_the_secrets() -> None:
    shown = show_config(parse_config(CONFIG + "params: {store: {password: hunter2}}\n"))
    with pytest.raises(ConfigError, match=r"^c\.yaml: params\.store\.password was taken out where the configuration"):
        parse_config(shown, source="c.yaml")
    whole = parse_config(shown, ["params.store.password=hunter2"])
    assert whole.params == {"store": {"password": "hunter2"}}


@pytest.mark.parametrize("key", ["submit.conf.spark.ssl.keyPassword", "params.password.first"])
def test_a_wrong_override_is_told_without_its_secret(key: str) -> None:
    with pytest.raises(ConfigError, match=r"[Pp]assword") as caught:
        parse_config(CONFIG + "params: {password: text}\n", [f"{key}=[{SECRET}]"])
    assert SECRET not in str(caught.value)


# --- certificates ---


def test_certificates_outlive_any_run_and_are_valid_where_a_clock_is_hours_behind() -> None:
    made = new_tls_material(NOW)
    for pem in (made.authority, made.certificate):
        certificate = x509.load_pem_x509_certificate(pem.encode())
        assert certificate.not_valid_before_utc <= NOW - datetime.timedelta(hours=24)
        assert certificate.not_valid_after_utc >= NOW + datetime.timedelta(days=3650)


# --- YAML's aliases ---

LAUGHS = "a0: &a0 [lol, lol]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
MERGES = "a0: &a0 {k: v}\n" + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40))
LONG_TEXT = f"a: &a {'x' * 100_000}\nparams: [{'*a, ' * 100}]\n"
DEEP = "params: " + "[" * 500 + "]" * 500


@pytest.mark.parametrize("text", [LAUGHS, MERGES, LONG_TEXT])
def test_aliases_that_would_fill_the_memory_are_refused_at_once(text: str) -> None:
    started_s = time.process_time()
    with pytest.raises(ConfigError, match=r"^c\.yaml: aliases \(\*name\) make it larger than 4 MiB"):
        parse_config(text, source="c.yaml")
    assert time.process_time() - started_s < 2


@pytest.mark.parametrize("text", [DEEP, DEEP.replace("[", "{a: ").replace("]", "}")])
def test_what_is_nested_without_end_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^c\.yaml: is nested too deeply"):
        parse_config(text, source="c.yaml")


def test_an_anchor_within_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^c\.yaml: line 1: an anchor contains itself"):
        parse_config("params: &a {b: [*a]}\n", source="c.yaml")


def test_aliases_serve_for_what_is_said_twice() -> None:
    config = parse_config(CONFIG + "params: {one: &units [64, 32], other: *units, more: {<<: {deep: *units}}}\n")
    assert config.params == {"one": [64, 32], "other": [64, 32], "more": {"deep": [64, 32]}}

"""The `spark-submit` line of a configuration, held as files: what stands there is what a person sees."""

from __future__ import annotations

import dataclasses
import stat
from pathlib import Path

import pytest

from sparktf.config.load import parse_config
from sparktf.driver.spark.allowed_losses import LOSSES, missing_losses
from sparktf.errors import ConfigError, PreflightError
from sparktf.submit.environment import Programs, spark_environment, with_proxy_user
from sparktf.submit.line import ScoringJob, Shipment, private_settings, show_line, submit_line
from sparktf.submit.preflight import check_programs
from sparktf.submit.shipment import stage

GOLDEN = Path(__file__).parent / "golden"
PROGRAMS = Programs(Path("/opt/spark"), driver_python="/opt/venv/bin/python", python="/usr/bin/python3")
SHIPMENT = Shipment(
    "/stage/sparktf_job.py",
    "/stage/sparktf-job/sparktf-job.yaml",
    "/stage/sparktf-job-0123.zip",
    ("/stage/sparktf-4567.zip",),
)
CONFIG = """\
name: churn
model: models.churn:build
data: {path: /lake/customers, inputs: {age: age}, targets: {churned: churned}}
cluster: {workers: 4}
output: {path: /models/runs}
"""

CASES: dict[str, tuple[str, ...]] = {
    "cluster": (),
    "client": ("submit.deploy_mode=client",),
    "archive": ("submit.archive=hdfs:///envs/env.tar.gz", "submit.queue=nightly", "cluster.trainer_memory_mib=6144"),
    "conf": (
        "submit.conf.spark.executor.memory=3g",
        "submit.conf.spark.yarn.tags=nightly",
        "submit.conf.spark.yarn.archive=hdfs:///spark/jars.zip",
        "submit.conf.spark.driver.extraJavaOptions=-Xss4m -Dgreeting='two words'",
        "submit.files=[/etc/krb5.conf]",
        "submit.py_files=[features.py]",
    ),
    "async": ("cluster.strategy=parameter_server", "cluster.ps=2", "cluster.ps_memory_mib=8192"),
    "local": ("submit.master=local[4]", "submit.deploy_mode=client"),
    "standalone": ("submit.master=spark://a:7077,b:7077", "submit.deploy_mode=client", "submit.executor_cores=2"),
    "kubernetes": (
        "submit.master=k8s://https://api:6443",
        "submit.kubernetes.image=registry:5000/churn:7",
        "submit.kubernetes.namespace=ml",
        "submit.kubernetes.service_account=spark",
        "submit.kubernetes.upload=file:///runs/uploads",
        "submit.kubernetes.volumes={runs: {claim: runs, path: /runs}, lake: {nfs: 'nas:/lake', path: /lake, "
        "read_only: true}}",
    ),
    "pods": (
        "submit.master=k8s://https://api:6443",
        "submit.deploy_mode=client",
        "submit.kubernetes.image=registry:5000/churn:7",
        "submit.kubernetes.volumes={runs: {host_path: /mnt/runs, path: /runs}}",
        "submit.kubernetes.python=/opt/env/bin/python",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_line_is_the_one_on_file(case: str) -> None:
    config = parse_config(CONFIG, CASES[case])
    line = submit_line(config, SHIPMENT, "2026-11-20", PROGRAMS)
    assert show_line(line) + "\n" == (GOLDEN / f"submit_{case}.txt").read_text(encoding="utf-8")


def test_a_job_that_scores_has_executors_for_its_workers_and_sparks_own_patience() -> None:
    config = parse_config(CONFIG, CASES["client"])
    line = submit_line(config, SHIPMENT, None, PROGRAMS, scoring=ScoringJob("run:2026-11-20"))
    assert show_line(line) + "\n" == (GOLDEN / "submit_predict.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ((), str(LOSSES)),
        (("cluster.collectives=sparktf",), str(LOSSES)),
        (("cluster.strategy=parameter_server", "cluster.ps=1"), str(LOSSES)),
        (("cluster.collectives=tensorflow",), None),
        (("cluster.workers=1",), None),
    ],
)
def test_where_losses_cost_no_attempt_spark_is_told_to_allow_many_of_them(
    settings: tuple[str, ...], allowed: str | None
) -> None:
    line = submit_line(parse_config(CONFIG, settings), SHIPMENT, None, PROGRAMS)
    given = dict(word.partition("=")[::2] for word in line if word.startswith("spark."))
    assert given.get("spark.task.maxFailures") == allowed


def test_an_application_that_was_submitted_without_them_gets_them_unless_somebody_chose_others() -> None:
    config = parse_config(CONFIG)
    both = {"spark.task.maxFailures": str(LOSSES), "spark.executor.maxNumFailures": str(4 * LOSSES)}
    assert missing_losses(config, {"spark.executor.memory"}) == both
    assert missing_losses(config, {"spark.task.maxFailures"}) == {"spark.executor.maxNumFailures": str(4 * LOSSES)}
    assert missing_losses(parse_config(CONFIG, ["cluster.workers=1"]), ()) == {}


def test_a_run_without_a_name_is_named_by_yarn() -> None:
    assert "--run-id" not in submit_line(parse_config(CONFIG), SHIPMENT, None, PROGRAMS)


def test_a_submission_that_waits_for_the_runs_owner_says_so_to_its_driver() -> None:
    assert submit_line(parse_config(CONFIG), SHIPMENT, "r", PROGRAMS, wait=True)[-3:] == ["--run-id", "r", "--wait"]


PASSED_ON = {
    "spark.yarn.executor.nodeLabelExpression": "gpu && ssd",
    "spark.yarn.am.nodeLabelExpression": "core",
    "spark.yarn.dist.files": "hdfs:///conf/words.txt,hdfs:///conf/truststore.jks#trust",
    "spark.yarn.dist.archives": "hdfs:///envs/more.zip#more",
    "spark.executorEnv.YARN_CONTAINER_RUNTIME_TYPE": "docker",
    "spark.executorEnv.YARN_CONTAINER_RUNTIME_DOCKER_IMAGE": "registry:5000/spark:3.5",
    "spark.yarn.appMasterEnv.YARN_CONTAINER_RUNTIME_TYPE": "docker",
    "spark.executorEnv.YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS": "/etc/passwd:/etc/passwd:ro,/data:/data:ro",
}


TO_PODS = {
    "spark.executor.resource.gpu.amount": "1",
    "spark.executor.resource.gpu.vendor": "nvidia.com",
    "spark.executor.resource.gpu.discoveryScript": "/opt/sparktf/gpus.sh",
    "spark.task.resource.gpu.amount": "1",
    "spark.kubernetes.executor.podTemplateFile": "tolerations.yaml",
    "spark.kubernetes.executor.node.selector.accelerator": "a100",
    "spark.kubernetes.driver.secretKeyRef.AWS_ACCESS_KEY_ID": "store:id",
}


@pytest.mark.parametrize("mode", ["cluster", "client"])
@pytest.mark.parametrize(("master", "given"), [("yarn", PASSED_ON), ("kubernetes", TO_PODS)])
def test_what_only_the_cluster_understands_is_passed_on_as_it_is(mode: str, master: str, given: dict[str, str]) -> None:
    config = parse_config(CONFIG, [*(CASES["kubernetes"] if master != "yarn" else ()), f"submit.deploy_mode={mode}"])
    submit = config.submit.model_copy(update={"conf": given})
    config = config.model_copy(update={"submit": submit})
    line = submit_line(config, SHIPMENT, None, PROGRAMS)
    settings = [line[i + 1] for i, part in enumerate(line) if part == "--conf"]
    passed = {key: value for key, _, value in (s.partition("=") for s in settings) if key in given}
    assert {**passed, **private_settings(config)} == given


def test_a_setting_of_the_users_own_wins_and_stands_once() -> None:
    config = parse_config(CONFIG, ["submit.conf.spark.executor.instances=7"])
    line = submit_line(config, SHIPMENT, None, PROGRAMS)
    assert [part for part in line if part.startswith("spark.executor.instances=")] == ["spark.executor.instances=7"]


def test_a_keytab_is_handed_to_spark_and_a_setting_of_the_users_own_wins() -> None:
    given = ("submit.principal=etl@LAKE", "submit.keytab=/keys/etl.keytab")
    for more, keytab in (((), "/keys/etl.keytab"), (("submit.conf.spark.kerberos.keytab=/keys/b",), "/keys/b")):
        line = submit_line(parse_config(CONFIG, (*given, *more)), SHIPMENT, None, PROGRAMS)
        login = [part for part in line if part.startswith("spark.kerberos.")]
        assert login == ["spark.kerberos.principal=etl@LAKE", f"spark.kerberos.keytab={keytab}"]


@pytest.mark.parametrize(("given", "lacking"), [("principal", "keytab"), ("keytab", "principal")])
def test_a_keytab_without_its_principal_is_refused(given: str, lacking: str) -> None:
    with pytest.raises(ConfigError, match=f"{given} needs {lacking}"):
        parse_config(CONFIG, [f"submit.{given}=etl"])


def test_where_tickets_are_is_no_secret() -> None:
    """A secret would travel apart from the line, and be shown to nobody."""
    config = parse_config(
        CONFIG, ["submit.conf.spark.kerberos.renewal.credentials=ccache", "submit.conf.credentials=x"]
    )
    assert private_settings(config) == {"credentials": "x"}


def test_a_run_of_another_users_is_handed_to_spark_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable of Hadoop's own clients means the same; both at once would be a proxy of a proxy."""
    monkeypatch.setenv("HADOOP_PROXY_USER", "bob")
    configured = with_proxy_user(parse_config(CONFIG, ["submit.proxy_user=alice"]))
    named = with_proxy_user(parse_config(CONFIG))
    for config, user in ((configured, "alice"), (named, "bob")):
        line = submit_line(config, SHIPMENT, None, PROGRAMS)
        assert line[line.index("--proxy-user") + 1] == user
    assert "HADOOP_PROXY_USER" not in spark_environment(PROGRAMS, Path("log4j"), in_cluster=False)
    login = ["submit.principal=etl@LAKE", "submit.keytab=/keys/etl.keytab"]
    with pytest.raises(PreflightError, match=r"HADOOP_PROXY_USER=bob excludes submit\.principal and submit\.keytab"):
        with_proxy_user(parse_config(CONFIG, login))
    monkeypatch.delenv("HADOOP_PROXY_USER")
    assert "--proxy-user" not in submit_line(with_proxy_user(parse_config(CONFIG)), SHIPMENT, None, PROGRAMS)
    with pytest.raises(ConfigError, match="proxy_user excludes principal and keytab, as spark-submit does: get a"):
        parse_config(CONFIG, [*login, "submit.proxy_user=alice"])


def test_a_keytab_that_cannot_be_read_is_refused_before_spark_starts(tmp_path: Path) -> None:
    keytab = tmp_path / "etl.keytab"
    config = parse_config(CONFIG, ["submit.principal=etl@LAKE", f"submit.keytab={keytab}"])
    with pytest.raises(PreflightError, match=r"submit\.keytab: .*etl\.keytab cannot be read: No such file"):
        check_programs(config, PROGRAMS)


def test_secrets_reach_spark_in_a_file_of_the_owners_own(tmp_path: Path) -> None:
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text("spark.eventLog.enabled true", encoding="utf-8")
    secrets = {"spark.ssl.keyPassword": "a\\b =#c", "spark.hadoop.fs.s3a.secret.key": "hunter2"}
    config = parse_config(CONFIG.replace("models.churn:", "json:"), ["submit.archive=hdfs:///envs/env.tar.gz"])
    conf = {**secrets, "spark.sql.shuffle.partitions": "8"}
    config = config.model_copy(update={"submit": config.submit.model_copy(update={"conf": conf})})
    programs = dataclasses.replace(PROGRAMS, defaults=defaults)

    shipment = stage(config, tmp_path, tmp_path, programs)

    line = submit_line(config, shipment, None, programs)
    assert not [part for part in line if "hunter2" in part or "key" in part]
    assert "spark.sql.shuffle.partitions=8" in line
    file = Path(line[line.index("--properties-file") + 1])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text(encoding="utf-8").split("\n\n") == [
        "spark.eventLog.enabled true",
        "spark.ssl.keyPassword=a\\\\b\\ \\=\\#c\nspark.hadoop.fs.s3a.secret.key=hunter2\n",
    ]


def test_without_secrets_spark_reads_its_own_defaults(tmp_path: Path) -> None:
    config = parse_config(CONFIG.replace("models.churn:", "json:"), ["submit.archive=hdfs:///envs/env.tar.gz"])
    assert "--properties-file" not in submit_line(config, stage(config, tmp_path, tmp_path, PROGRAMS), None, PROGRAMS)


@pytest.mark.parametrize(
    ("in_cluster", "options"),
    [
        (True, "-Dlog4j2.configurationFile=log4j -XX:TieredStopAtLevel=1 -XX:TieredStopAtLevel=4"),
        (False, "-Dlog4j2.configurationFile=log4j -XX:TieredStopAtLevel=4"),
    ],
)
def test_a_jvm_that_only_submits_starts_with_the_quick_compiler_and_the_users_own_options_win(
    monkeypatch: pytest.MonkeyPatch, in_cluster: bool, options: str
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=4")
    programs = Programs(Path("/spark"), "python", "python", None)
    assert spark_environment(programs, Path("log4j"), in_cluster=in_cluster)["SPARK_SUBMIT_OPTS"] == options


@pytest.mark.parametrize(("file", "handed_on"), [("/tmp/x/sparktf-tokens", False), ("/tmp/x/mine", True)])
def test_tokens_that_sparktf_has_asked_for_itself_are_not_those_of_spark_submit(
    monkeypatch: pytest.MonkeyPatch, file: str, handed_on: bool
) -> None:
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", file)
    programs = Programs(Path("/spark"), "python", "python", None)
    environment = spark_environment(programs, Path("log4j"), in_cluster=True)
    assert ("HADOOP_TOKEN_FILE_LOCATION" in environment) == handed_on

"""The secrets of object stores: which there are, who gets them, and that nobody else does."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest

from sparktf.driver.spark.driver_keys import CommandKeys, DriverKeys
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import Timeouts
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.objects.clients import azure_config, s3_config
from sparktf.storage.objects.container import container_of
from sparktf.storage.store_keys import (
    STORE_KEYS,
    STORE_KEYS_FILE,
    HandedKeys,
    environment_keys,
    key_file,
    keys_here,
    of_container,
    only_hadoops,
    parse_keys,
    profile_keys,
)
from sparktf.wire.control import Order, Orders

SECRET = "hunter2-hunter2"
ACCOUNT = "acct.dfs.core.windows.net"
PROPERTIES = {
    "fs.s3a.endpoint": "http://s3:1",
    "fs.s3a.access.key": "all",
    "fs.s3a.secret.key": SECRET,
    "fs.s3a.session.token": f"{SECRET}-token",
    "fs.s3a.bucket.mine.access.key": "mine",
    "fs.s3a.bucket.mine.secret.key": f"{SECRET}-mine",
    "fs.s3a.bucket.other.secret.key": f"{SECRET}-other",
    f"fs.azure.account.key.{ACCOUNT}": SECRET,
    "fs.azure.account.key.else.dfs.core.windows.net": SECRET,
    "fs.gs.auth.service.account.private.key": SECRET,
    "dfs.some.password": SECRET,
}


def test_what_nodes_lack_is_what_is_handed_and_only_that_of_their_stores() -> None:
    hadoop = HadoopConf(properties=PROPERTIES)
    secrets = hadoop.secrets_of_stores()
    assert hadoop.for_nodes().properties == {"fs.s3a.endpoint": "http://s3:1"}
    assert "dfs.some.password" not in secrets
    assert set(of_container(secrets, "s3a", "mine")) == {
        *(f"fs.s3a.{key}" for key in ("access.key", "secret.key", "session.token")),
        *(f"fs.s3a.bucket.mine.{key}" for key in ("access.key", "secret.key")),
    }
    assert set(of_container(secrets, "abfss", f"c@{ACCOUNT}")) == {f"fs.azure.account.key.{ACCOUNT}"}
    assert set(of_container(secrets, "gs", "b")) == {"fs.gs.auth.service.account.private.key"}


def test_a_buckets_own_key_goes_before_the_others_and_without_their_token() -> None:
    mine, others = s3_config("mine", PROPERTIES), s3_config("third", PROPERTIES)
    assert (mine["access_key_id"], mine["secret_access_key"]) == ("mine", f"{SECRET}-mine")
    assert "session_token" not in mine
    assert (others["access_key_id"], others["session_token"]) == ("all", f"{SECRET}-token")


def test_who_signs_nothing_says_so_as_to_hadoop() -> None:
    chain = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    assert s3_config("b", {"fs.s3a.aws.credentials.provider": chain}) == {"region": "us-east-1", "skip_signature": True}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({f"account.key.{ACCOUNT}": "k"}, {"account_key": "k"}),
        ({"account.key": "k"}, {"account_key": "k"}),
        ({f"sas.fixed.token.{ACCOUNT}": "s"}, {"sas_key": "s"}),
        (
            {
                "account.oauth2.client.id": "i",
                "account.oauth2.client.secret": "s",
                "account.oauth2.client.endpoint": "https://login.microsoftonline.com/ten-ant/oauth2/token",
            },
            {"client_id": "i", "client_secret": "s", "tenant_id": "ten-ant"},
        ),
    ],
)
def test_an_account_on_azure_is_known_by_hadoops_keys(properties: dict[str, str], expected: dict[str, str]) -> None:
    container = container_of(f"abfss://c@{ACCOUNT}")
    found = azure_config(container, {f"fs.azure.{key}": value for key, value in properties.items()})
    assert {key: value for key, value in found.items() if key != "account_name"} == expected


PLAIN = {"fs.azure.always.use.https": "false"}
THERE = {"fs.azure.abfs.endpoint": "127.0.0.1:10000"}


@pytest.mark.parametrize(
    ("root", "properties", "endpoint"),
    [
        (f"abfss://c@{ACCOUNT}", {}, None),
        (f"abfs://c@{ACCOUNT}", {}, None),
        ("abfss://c@acct.dfs.core.chinacloudapi.cn", {}, "https://acct.blob.core.chinacloudapi.cn"),
        ("abfs://c@acct.dfs.core.chinacloudapi.cn", {}, "https://acct.blob.core.chinacloudapi.cn"),
        ("abfs://c@acct.dfs.core.chinacloudapi.cn", PLAIN, "http://acct.blob.core.chinacloudapi.cn"),
        ("abfs://c@acct.dfs.core.windows.net", THERE, "https://127.0.0.1:10000/acct"),
        ("abfss://c@acct.dfs.core.windows.net", PLAIN | THERE, "https://127.0.0.1:10000/acct"),
        ("abfs://c@acct.dfs.core.windows.net", PLAIN | THERE, "http://127.0.0.1:10000/acct"),
        # As Hadoop has it: what names no port is no address.
        ("abfs://c@acct.dfs.core.windows.net", {"fs.azure.abfs.endpoint": "elsewhere"}, None),
    ],
)
def test_an_account_elsewhere_is_reached_there_and_by_tls_unless_it_is_turned_off(
    root: str, properties: dict[str, str], endpoint: str | None
) -> None:
    assert azure_config(container_of(root), properties).get("endpoint") == endpoint


@pytest.mark.parametrize(
    ("path", "properties", "reason"),
    [
        ("s3a://b/x", {}, ""),
        ("s3a://b/x", {"fs.s3a.encryption.algorithm": "SSE-KMS"}, ""),
        ("s3a://b/x", {"fs.s3a.bucket.b.encryption.algorithm": "CSE-KMS"}, "its objects are encrypted by CSE-KMS"),
        ("s3a://b/x", {"fs.s3a.bucket.c.encryption.algorithm": "CSE-KMS"}, ""),
        ("s3://b/x", {"fs.s3a.server-side-encryption-algorithm": "SSE-C"}, "its objects are encrypted by SSE-C"),
        (f"abfss://c@{ACCOUNT}/x", {f"fs.azure.account.auth.type.{ACCOUNT}": "Custom"}, "auth.type is Custom"),
        (f"abfss://c@{ACCOUNT}/x", {"fs.azure.account.auth.type": "SAS"}, "fs.azure.sas.token.provider.type"),
        (f"abfss://c@{ACCOUNT}/x", {"fs.azure.account.auth.type": "OAuth"}, ""),
        ("wasbs://c@a/x", {}, "there is no client for wasbs://"),
        ("/plain", {}, ""),
    ],
)
def test_what_only_hadoops_connector_can_read_is_known_before(
    path: str, properties: dict[str, str], reason: str
) -> None:
    found = FileSystems(HadoopConf(properties=properties)).only_hadoops(path)
    assert reason in found
    assert bool(found) is bool(reason)
    assert only_hadoops({}, "gs", "b") == ""


def test_secrets_are_read_again_when_their_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    keys, handed = keys_here(), HandedKeys(tmp_path)
    assert (dict(keys.properties("s3a://b")), keys.edition()) == ({}, "")
    editions = set()
    for secret in ("one", "two"):
        handed.take(key_file({"fs.s3a.secret.key": secret}))
        assert keys.properties("s3a://b") == {"fs.s3a.secret.key": secret}
        editions |= {keys.edition(), handed.edition}
        assert secret not in keys.edition() + handed.edition
    assert len(editions) == 4
    assert (tmp_path / STORE_KEYS).stat().st_mode & 0o777 == 0o600
    (tmp_path / STORE_KEYS).write_text("no keys")
    assert keys.properties("s3a://b") == {}


def test_keys_of_awss_own_tools_are_found(tmp_path: Path) -> None:
    place = tmp_path / "credentials"
    place.write_text(
        "[default]\naws_access_key_id = a\naws_secret_access_key = b%c\n[night]\naws_access_key_id = n\n"
        "aws_secret_access_key = s\naws_session_token = t\n"
    )
    named = {"AWS_SHARED_CREDENTIALS_FILE": str(place)}
    prefix = "fs.s3a.bucket.b."
    assert profile_keys("b", named)[f"{prefix}secret.key"] == "b%c"
    assert profile_keys("b", named | {"AWS_PROFILE": "night"}) == {
        f"{prefix}access.key": "n",
        f"{prefix}secret.key": "s",
        f"{prefix}session.token": "t",
    }
    assert profile_keys("b", named | {"AWS_PROFILE": "none"}) == {}
    assert profile_keys("b", {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none")}) == {}
    assert environment_keys("b", {"AWS_ACCESS_KEY_ID": "a"}) == {}
    assert environment_keys("b", {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s"})[f"{prefix}access.key"] == "a"


CHAIN = "fs.s3a.aws.credentials.provider"
SIMPLE, FROM_ENVIRONMENT, FROM_PROFILE = (
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
    "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider",
)
STATIC = {"fs.s3a.access.key": "static", "fs.s3a.secret.key": SECRET}


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({}, "environment"),
        (STATIC, "static"),
        ({**STATIC, CHAIN: f"{SIMPLE},{FROM_ENVIRONMENT}"}, "static"),
        ({CHAIN: f"{SIMPLE}, {FROM_ENVIRONMENT}"}, "environment"),
        ({**STATIC, CHAIN: FROM_ENVIRONMENT}, "environment"),
        ({**STATIC, "fs.s3a.bucket.b.aws.credentials.provider": FROM_PROFILE}, "profile"),
        ({**STATIC, "fs.s3a.bucket.c.aws.credentials.provider": FROM_PROFILE}, "static"),
    ],
)
def test_the_chain_of_providers_says_whose_keys_count(
    properties: dict[str, str], key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id = profile\naws_secret_access_key = s\n")
    named = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"), "AWS_SECRET_ACCESS_KEY": "s"}
    for name, value in (named | {"AWS_ACCESS_KEY_ID": "environment"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    found = CommandKeys(HadoopConf(properties=properties)).properties("s3a://b")
    assert s3_config("b", {**properties, **found})["access_key_id"] == key


def test_no_text_form_shows_a_secret(tmp_path: Path) -> None:
    systems = FileSystems(HadoopConf(properties=PROPERTIES), timeouts=Timeouts(deadline_s=1))
    storage = systems.open("s3a://mine/x")
    for shown in (Orders(order=Order.WAIT, store_keys=SECRET), storage, systems.keys):
        assert SECRET not in f"{shown!r}{shown}"
    with pytest.raises(ValueError, match="no file of secrets") as refused:
        parse_keys(SECRET.encode())
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None
    with pytest.raises(OSError, match=r"^cannot (access|read) s3a://mine/x: ") as failed:
        storage.read_bytes("s3a://mine/x")
    assert SECRET not in repr(failed.value)


def test_the_stores_of_paths_that_nobody_here_has_opened_are_in_use_once_they_are_noted() -> None:
    systems = FileSystems(HadoopConf(properties=PROPERTIES))
    systems.note(["s3a://mine/a/b=1/c", "s3a://mine/d", "/local", "hdfs://nn:8020/x", f"abfss://c@{ACCOUNT}/x"])
    assert sorted(systems.stores()) == [f"abfss://c@{ACCOUNT}", "s3a://mine"]


def test_what_the_driver_starts_finds_its_secrets_and_nobody_else_can_read_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(STORE_KEYS_FILE, "/nowhere")
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    session: Any = None  # nothing here is the JVM's
    keys = DriverKeys(session, HadoopConf(properties=PROPERTIES), lambda: 0.0)
    assert keys_here().properties("s3a://mine") == {}
    found = keys.properties("s3a://mine")
    assert keys_here().properties("s3a://mine") == found
    assert found["fs.s3a.bucket.mine.secret.key"] == f"{SECRET}-mine"
    place = Path(os.environ[STORE_KEYS_FILE])
    assert (place.stat().st_mode & 0o777, place.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    keys.properties(f"abfss://c@{ACCOUNT}")
    assert f"fs.azure.account.key.{ACCOUNT}" in keys_here().properties("any")
    del keys
    gc.collect()
    assert not place.exists()

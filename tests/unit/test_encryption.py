"""A run keeps to what Spark's settings say of the network: it warns where that is open, and does not go below."""

from __future__ import annotations

import pytest

from sparktf.config.load import parse_config
from sparktf.driver.spark.encryption import check_encryption
from sparktf.driver.spark.masters import master_to_submit_to
from sparktf.errors import PreflightError

AUTHENTICATE = {"spark.authenticate": "true"}
CLOSED = {**AUTHENTICATE, "spark.network.crypto.enabled": "true"}
CONFIG = """\
name: churn
model: models.churn:build
data: {path: /lake/customers, inputs: {age: age}, targets: {churned: churned}}
output: {path: /models/runs}
security: {tls: 'off'}
"""


@pytest.mark.parametrize("conf", [{}, AUTHENTICATE, {**CLOSED, "spark.authenticate": "false"}])
def test_an_open_network_is_warned_of(conf: dict[str, str]) -> None:
    warning = check_encryption(conf, "auto")
    assert warning is not None
    assert warning.startswith("spark.authenticate and spark.network.crypto.enabled are not both on")


@pytest.mark.parametrize("conf", [CLOSED, {**AUTHENTICATE, "spark.ssl.rpc.enabled": "TRUE"}])
def test_a_closed_one_is_not(conf: dict[str, str]) -> None:
    assert check_encryption(conf, "auto") is None
    assert check_encryption(conf, "on") is None


@pytest.mark.parametrize("conf", [AUTHENTICATE, CLOSED, {"spark.network.crypto.enabled": "true"}])
def test_a_run_in_the_clear_is_refused_where_spark_protects_its_own_traffic(conf: dict[str, str]) -> None:
    with pytest.raises(PreflightError, match=r"^security\.tls: off .* leave security\.tls at auto$"):
        check_encryption(conf, "off")


def test_tokens_never_cross_the_network_in_the_clear() -> None:
    with pytest.raises(PreflightError, match="would send the delegation tokens of HDFS unencrypted"):
        check_encryption({}, "off", kerberos=True)
    assert check_encryption({}, "auto", kerberos=True) is not None


def test_where_nobody_asks_for_protection_a_run_may_be_in_the_clear_with_a_warning() -> None:
    assert check_encryption({}, "off") is not None


@pytest.mark.parametrize(
    ("overrides", "refused"),
    [
        ((), True),
        (("submit.conf.spark.authenticate=false",), False),
        (("submit.master=local[2]", "submit.deploy_mode=client"), False),
        (("security.tls=auto",), False),
    ],
    ids=["the default", "asked for by name", "on one machine", "with TLS"],
)
def test_a_submission_in_the_clear_is_refused_before_yarn_is_asked(overrides: tuple[str, ...], refused: bool) -> None:
    config = parse_config(CONFIG, overrides)
    if refused:
        with pytest.raises(PreflightError, match=r"^security\.tls: off"):
            master_to_submit_to(config).check_security(config)
    else:
        master_to_submit_to(config).check_security(config)

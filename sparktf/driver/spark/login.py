"""Tokens of HDFS by Kerberos: refusals, each in one line, and in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JError

from sparktf.driver.spark.kerberos_reasons import GET_A_TICKET, login_fault
from sparktf.driver.spark.kerberos_wait import answer_in_time
from sparktf.errors import PreflightError
from sparktf.knobs import KNOBS

T = TypeVar("T")

_GET_ONE = (
    f"{GET_A_TICKET}, or give a principal and its keytab (submit.principal, submit.keytab; "
    "spark-submit --principal, --keytab)"
)


def no_token(error: Exception) -> PreflightError:
    """Returns the refusal of whoever gets no token, with the reason that Hadoop's client gives."""
    return PreflightError(f"Kerberos: HDFS gives no token: {login_fault(error).told(_GET_ONE)}")


def tokens_in_time(ask: Callable[[], T]) -> T:
    """Returns the answer to a question to Hadoop's client, which Java lets wait for minutes where a KDC is silent.

    Raises:
        PreflightError: there is no token to be had, or no answer in time.
    """
    try:
        return answer_in_time(ask, KNOBS.login_s)
    except TimeoutError as error:
        raise PreflightError(
            f"Kerberos: neither the KDC nor HDFS answers within {KNOBS.login_s:g} s: see whether they are up, and "
            "whether this machine reaches the KDC that krb5.conf names"
        ) from error
    except (Py4JError, OSError) as error:
        raise no_token(error) from error

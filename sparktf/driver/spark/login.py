"""Kerberos' refusals, each in one line, and in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from py4j.protocol import Py4JError, Py4JJavaError

from sparktf.errors import PreflightError
from sparktf.knobs import KNOBS
from sparktf.storage.ticket_cache import cached_ticket
from sparktf.told import first_line_of, line_of_error

T = TypeVar("T")

_NONE = "there is no ticket"
_GET_ONE = (
    "get a ticket with kinit (klist shows it), or give a principal and its keytab (submit.principal, submit.keytab; "
    "spark-submit --principal, --keytab)"
)
_KDC = "see whether it is up, and whether krb5.conf names it"
_NOWHERE = "the Hadoop configuration leads to no NameNode"
_CONF = "look at fs.defaultFS, dfs.nameservices, dfs.ha.namenodes and dfs.namenode.rpc-address in it"
_REASONS = (
    ("Client cannot authenticate via", _NONE, _GET_ONE),
    ("Failed to find any Kerberos tgt", _NONE, _GET_ONE),
    ("Ticket expired", "the ticket has expired", _GET_ONE),
    (
        "Clock skew too great",
        "the clocks of this machine and the KDC differ by more than five minutes",
        "have both follow one time server",
    ),
    ("Server not found in Kerberos database", "the ticket's realm does not know this cluster", _GET_ONE),
    ("No service creds", "the ticket's realm does not know this cluster", _GET_ONE),
    ("Cannot find KDC for realm", "krb5.conf names no KDC for the cluster's realm", "add it to krb5.conf"),
    ("Cannot locate KDC", "krb5.conf names no KDC for the ticket's realm", "add it to krb5.conf"),
    ("(Mechanism level: Connection refused", "the KDC refuses connections", _KDC),
    ("(Mechanism level: No route to host", "no way leads to the KDC", _KDC),
    ("(Mechanism level: Receive timed out", "the KDC does not answer", _KDC),
    (
        "is not allowed to impersonate",
        "who has the ticket may not act as another user",
        "have it allowed on the cluster (hadoop.proxyuser.<user>.users and .hosts), or act as yourself",
    ),
    ("java.net.UnknownHostException", _NOWHERE, _CONF),
    ("Couldn't create proxy provider", _NOWHERE, _CONF),
)
"""What Hadoop's client and Java say, the same in plain words, and what to do."""


def no_token(error: Exception) -> PreflightError:
    """Returns the refusal of whoever gets no token, with the reason that Hadoop's client gives."""
    said = _words_of(error)
    why, mend = next(((why, mend) for sign, why, mend in _REASONS if sign in said), (said, _GET_ONE))
    ticket = cached_ticket()
    if why == _NONE and ticket is not None and ticket.ends_s <= time.time():
        ended = time.strftime("%Y-%m-%d %H:%M", time.localtime(ticket.ends_s))
        why = f"the ticket of {ticket.principal} has expired ({ended})"
    return PreflightError(f"Kerberos: HDFS gives no token: {why}: {mend}")


def _words_of(error: Exception) -> str:
    """Returns the first line of an error, of Java's own exception: py4j's text begins with the call."""
    if isinstance(error, Py4JJavaError):
        with suppress(Py4JError, OSError):  # the JVM may be gone
            return first_line_of(str(error.java_exception.toString()), "no reason given")
    return line_of_error(error)


def in_time(ask: Callable[[], T]) -> T:
    """Returns the answer to a question to Hadoop's client, which Java lets wait for minutes where a KDC is silent.

    Raises:
        PreflightError: there is no token to be had, or no answer in time.
    """
    told: list[T] = []
    failed: list[Exception] = []

    def work() -> None:
        try:
            told.append(ask())
        except Exception as error:  # noqa: BLE001 - raised below, where it is waited for
            failed.append(error)

    # It is not waited for any longer: the JVM that it asks ends with this process.
    thread = threading.Thread(target=work, name="kerberos-login", daemon=True)
    thread.start()
    thread.join(KNOBS.login_s)
    if told:
        return told[0]
    if not failed:
        raise PreflightError(
            f"Kerberos: neither the KDC nor HDFS answers within {KNOBS.login_s:g} s: see whether they are up, and "
            "whether this machine reaches the KDC that krb5.conf names"
        )
    if isinstance(failed[0], (Py4JError, OSError)):
        raise no_token(failed[0]) from failed[0]
    raise failed[0]

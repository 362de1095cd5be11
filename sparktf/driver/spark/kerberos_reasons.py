"""The faults of a login by Kerberos in plain words, by the messages of Hadoop's client, Java and MIT's library."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import NamedTuple

from sparktf.storage.ticket_cache import cached_ticket
from sparktf.told import first_line_of, line_of_error

GET_A_TICKET = "get a ticket with kinit (klist shows it)"
_NONE = "there is no ticket"
_PERHAPS_NONE = "there is no ticket, or it has expired"
_ELSEWHERE = "the ticket's realm does not know this cluster"
_KDC = "see whether it is up, and whether krb5.conf names it"
_NOWHERE = "the Hadoop configuration leads to no NameNode"
_CONF = "look at fs.defaultFS, dfs.nameservices, dfs.ha.namenodes and dfs.namenode.rpc-address in it"
_REASONS = (
    ("Client cannot authenticate via", _NONE, ""),
    ("No Kerberos credentials available", _NONE, ""),
    ("Failed to find any Kerberos", _PERHAPS_NONE, ""),
    ("obtain new INITIATE credentials failed", _PERHAPS_NONE, ""),
    ("SPNEGO cannot find mechanisms", _PERHAPS_NONE, ""),
    ("Ticket expired", "the ticket has expired", ""),
    (
        "Clock skew too great",
        "the clocks of this machine and the KDC differ by more than five minutes",
        "have both follow one time server",
    ),
    ("not found in Kerberos database", _ELSEWHERE, ""),
    ("No service creds", _ELSEWHERE, ""),
    ("Cannot find KDC for realm", "krb5.conf names no KDC for the cluster's realm", "add it to krb5.conf"),
    ("Cannot locate KDC", "krb5.conf names no KDC for the ticket's realm", "add it to krb5.conf"),
    ("Cannot contact any KDC", "the realm's KDC cannot be reached", _KDC),
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
"""A sign in what the libraries say, the same in plain words, and what to do; "" where another ticket mends it."""


class Fault(NamedTuple):
    why: str
    mend: str  # "" where another ticket mends it

    def told(self, get_a_ticket: str = GET_A_TICKET) -> str:
        """Returns why, and what to do."""
        return f"{self.why}: {self.mend or get_a_ticket}"


def login_fault(error: Exception) -> Fault:
    """Returns why a login failed, each in one line."""
    said = _words_of(error)
    fault = next((Fault(why, mend) for sign, why, mend in _REASONS if sign in said), Fault(said, ""))
    ticket = cached_ticket()
    if fault.why in (_NONE, _PERHAPS_NONE) and ticket is not None and ticket.ends_s <= time.time():
        ended = time.strftime("%Y-%m-%d %H:%M", time.localtime(ticket.ends_s))
        return Fault(f"the ticket of {ticket.principal} has expired ({ended})", "")
    return fault


def _words_of(error: Exception) -> str:
    """Returns the first line of an error, of Java's own exception: py4j's text begins with the call."""
    java = getattr(error, "java_exception", None)
    if java is not None:
        with suppress(Exception):  # the JVM may be gone
            return first_line_of(str(java.toString()), "no reason given")
    return line_of_error(error)

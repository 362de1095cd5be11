"""The faults of a login by Kerberos in plain words, by the messages of Hadoop's client, Java and MIT's library."""

from __future__ import annotations

from sparktf.told import line_of_error

_REASONS = (
    ("Client cannot authenticate via", "there is no ticket"),
    ("No Kerberos credentials available", "there is no ticket"),
    ("Failed to find any Kerberos", "there is no ticket, or it has expired"),
    ("obtain new INITIATE credentials failed", "there is no ticket, or it has expired"),
    ("SPNEGO cannot find mechanisms", "there is no ticket, or it has expired"),
    ("Ticket expired", "the ticket has expired"),
    ("Clock skew too great", "the clocks of this machine and the KDC differ by more than five minutes"),
    ("not found in Kerberos database", "the ticket's realm does not know this cluster"),
    ("Cannot find KDC for realm", "krb5.conf names no KDC for the cluster's realm"),
    ("Cannot locate KDC", "krb5.conf names no KDC for the ticket's realm"),
    ("Cannot contact any KDC", "the realm's KDC cannot be reached"),
)


def login_fault(error: Exception) -> str:
    """Returns why a login failed: one line."""
    said = str(error)
    return next((words for sign, words in _REASONS if sign in said), line_of_error(error))

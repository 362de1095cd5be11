"""Kerberos' tickets of this user, as `kinit` keeps them in a file: whose they are, and when they end.

The format is that of MIT Kerberos' file caches, version 4, the only one that is written today. Caches of other kinds
(KEYRING:, KCM:) are not read: neither does Java.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

_FILE = "FILE:"
_VERSION = b"\x05\x04"
_TICKET_GRANTING = "krbtgt"


class CachedTicket(NamedTuple):
    """A ticket that gets others."""

    principal: str  # "alice@REALM"
    ends_s: float  # Seconds since 1970
    renewable_until_s: float  # As `ends_s`; 0 if it cannot be renewed


def cached_ticket() -> CachedTicket | None:
    """Returns this user's ticket, which may have ended; None if there is none, or none in a file."""
    named = os.environ.get("KRB5CCNAME") or f"/tmp/krb5cc_{os.getuid()}"
    try:
        return ticket_in(Path(named.removeprefix(_FILE)).read_bytes())
    except OSError:
        return None


def ticket_in(content: bytes) -> CachedTicket | None:
    """Returns the ticket-granting ticket of the user's own realm that ends last; None if a cache has none."""
    if content[:2] != _VERSION:
        return None
    reader = _Reader(content[2:])
    found: list[CachedTicket] = []
    try:
        reader.take(reader.number(2))  # Tags of the header
        owner, realm = reader.principal()
        while reader.rest:
            ends_s, renewable_s, server = reader.credential()
            if server == ([_TICKET_GRANTING, realm], realm):
                found.append(CachedTicket("/".join(owner) + f"@{realm}", ends_s, renewable_s))
    except (struct.error, UnicodeDecodeError):
        pass  # kinit is writing it: what came before counts
    return max(found, key=lambda ticket: ticket.ends_s, default=None)


class _Reader:
    def __init__(self, content: bytes) -> None:
        self.rest = content

    def take(self, nbytes: int) -> bytes:
        found, self.rest = self.rest[:nbytes], self.rest[nbytes:]
        if len(found) != nbytes:
            raise struct.error("it ends too early")
        return found

    def number(self, nbytes: int = 4) -> int:
        return int.from_bytes(self.take(nbytes), "big")

    def block(self) -> bytes:
        return self.take(self.number())

    def principal(self) -> tuple[list[str], str]:
        """Returns the components and the realm."""
        self.number()  # Kind of name
        count, realm = self.number(), self.block().decode()
        return [self.block().decode() for _ in range(count)], realm

    def credential(self) -> tuple[float, float, tuple[list[str], str]]:
        """Returns when a ticket ends, until when it may be renewed, and for whom it is."""
        self.principal()
        server = self.principal()
        self.number(2)  # Kind of key
        self.block()
        _, _, ends_s, renewable_s = (self.number() for _ in range(4))
        self.take(5)  # Flags
        for _ in range(2):  # Addresses, and what authorizes
            for _ in range(self.number()):
                self.number(2)
                self.block()
        self.block()  # The ticket, and a second one
        self.block()
        return float(ends_s), float(renewable_s), server

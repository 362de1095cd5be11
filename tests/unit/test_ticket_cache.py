"""Kerberos' file of tickets: what is read of it, by files as MIT Kerberos writes them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from sparktf.driver.spark.login import no_token
from sparktf.storage.ticket_cache import CachedTicket, cached_ticket, ticket_in

REALM = "LAKE"
SERVICE = ("nn", "h")
GRANTING = ("krbtgt", REALM)


def block(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def principal(*components: str, realm: str = REALM) -> bytes:
    head = struct.pack(">II", 1, len(components)) + block(realm.encode())
    return head + b"".join(block(part.encode()) for part in components)


def credential(server: tuple[str, ...], ends_s: int, renewable_s: int = 0, realm: str = REALM) -> bytes:
    times = struct.pack(">IIII", 5, 5, ends_s, renewable_s)
    addresses = struct.pack(">I", 1) + struct.pack(">H", 2) + block(b"\x0a\x00\x00\x01")
    key, flags = struct.pack(">H", 18) + block(b"k" * 32), b"\0" * 5
    names = principal("ann") + principal(*server, realm=realm)
    return names + key + times + flags + addresses + struct.pack(">I", 0) + block(b"ticket") + block(b"")


def cache(*credentials: bytes) -> bytes:
    header = struct.pack(">HH", 1, 8) + b"\0" * 8
    return b"\x05\x04" + struct.pack(">H", len(header)) + header + principal("ann") + b"".join(credentials)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (cache(credential(GRANTING, 100, 700)), CachedTicket("ann@LAKE", 100.0, 700.0)),
        (cache(credential(SERVICE, 999), credential(GRANTING, 100)), CachedTicket("ann@LAKE", 100.0, 0.0)),
        # What kinit notes beside tickets, and a ticket for another realm
        (cache(credential(("krb5_ccache_conf_data", "x"), 0, realm="X-CACHECONF:")), None),
        (cache(credential(("krbtgt", "POND"), 100)), None),
        (cache(credential(GRANTING, 100))[:-3], None),  # written just now
        (cache(), None),
        (b"\x05\x03 an old one", None),
        (b"", None),
    ],
)
def test_the_ticket_of_a_cache_is_the_one_that_gets_others(content: bytes, found: CachedTicket | None) -> None:
    assert ticket_in(content) == found


def test_who_has_a_ticket_that_has_ended_is_told_when(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Java takes no notice of it, and says that there is none."""
    (tmp_path / "cache").write_bytes(cache(credential(GRANTING, 1_700_000_000)))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'cache'}")
    assert cached_ticket() == CachedTicket("ann@LAKE", 1_700_000_000.0, 0.0)
    said = str(no_token(OSError("Client cannot authenticate via:[TOKEN, KERBEROS]")))
    assert "the ticket of ann@LAKE has expired (2023-11-1" in said
    monkeypatch.setenv("KRB5CCNAME", "KEYRING:persistent:0")
    assert cached_ticket() is None

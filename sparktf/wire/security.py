"""The secret and the certificates of one run's control channel.

The certificate authority lives only in the driver's memory, and signs one certificate that every node of the run uses
on both sides of the handshake: it proves membership in the run, and the channel needs no more. Others are refused
before the server reads a byte of a message (Flight cannot bound a message's size before it has read it).
"""

from __future__ import annotations

import secrets

from pydantic import Field

from sparktf.message import Message

NODE_NAME = "sparktf-node"
"""The name in the node certificate; clients check for it instead of a host name, which may be an address."""


class TlsMaterial(Message):
    """PEM texts of the run's authority, node certificate and node key."""

    authority: str = Field(repr=False)
    certificate: str = Field(repr=False)
    key: str = Field(repr=False)


class ControlAccess(Message):
    """The access data of a node to the driver. Travels in Spark's closure and the trainer's stdin, never in a log."""

    location: str
    secret: str = Field(repr=False)
    tls: TlsMaterial | None = Field(default=None, repr=False)


def new_secret() -> str:
    """Returns a fresh 256-bit secret."""
    return secrets.token_urlsafe(32)

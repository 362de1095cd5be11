"""Hadoop's token files: delegation tokens as its own processes store them, and as WebHDFS takes them.

The format is that of `org.apache.hadoop.security.Credentials` with `Writable`s ("HDTS", version 0): tokens, then secret
keys, each a number of entries and these. Numbers are Hadoop's of variable length (`WritableUtils.writeVInt`).
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

HDFS_KIND = "HDFS_DELEGATION_TOKEN"

_MAGIC, _WRITABLE = b"HDTS", 0
_LEAST_OF_ONE = -112  # A first byte from here on is the number itself


class TokenFormatError(ValueError):
    """This is no token file."""


@dataclass(frozen=True, slots=True)
class Token:
    """A delegation token: what it says, and the password that proves it, which no text form shows."""

    identifier: bytes = field(repr=False)
    password: bytes = field(repr=False)
    kind: str
    service: str  # "ip:port" of a NameNode, or "ha-hdfs:<name service>"

    def url_string(self) -> str:
        """Returns the token as WebHDFS takes it (`Token.encodeToUrlString`)."""
        return base64.urlsafe_b64encode(_token_bytes(self)).rstrip(b"=").decode()

    def owner(self) -> str:
        """Returns the principal that the token is of: "alice@REALM".

        Raises:
            TokenFormatError: its identifier is none of HDFS's.
        """
        reader = _Reader(self.identifier)
        reader.byte()  # Version of the identifier
        return reader.text()

    def issued_s(self) -> float:
        """Returns when the NameNode gave the token, in seconds since 1970 by its clock; 0 if that cannot be told."""
        try:
            reader = _Reader(self.identifier)
            reader.byte()
            for _ in range(3):  # Owner, renewer, real user
                reader.text()
            return reader.number() / 1000
        except TokenFormatError:
            return 0.0

    def named(self, service: str) -> Token:
        """Returns the same token for another spelling of its service."""
        return replace(self, service=service)


def parse_tokens(content: bytes) -> tuple[Token, ...]:
    """Returns the tokens of a file, without its secret keys.

    Raises:
        TokenFormatError: it is no token file, or one of another version.
    """
    reader = _Reader(content)
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise TokenFormatError("it does not begin as one of Hadoop's token files")
    if (version := reader.byte()) != _WRITABLE:
        raise TokenFormatError(f"it is a token file of version {version}, of which only {_WRITABLE} is known")
    found = []
    for _ in range(reader.number()):
        reader.text()  # The alias: a service, or a name that Spark or YARN gave
        found.append(Token(reader.block(), reader.block(), reader.text(), reader.text()))
    return tuple(found)


def token_file(tokens: Sequence[Token]) -> bytes:
    """Returns the content of a file of these tokens, each under its service, which is a token's alias in Hadoop."""
    entries = [_block(token.service.encode()) + _token_bytes(token) for token in tokens]
    return b"".join([_MAGIC, bytes([_WRITABLE]), _number(len(entries)), *entries, _number(0)])


def edition_of(content: bytes) -> str:
    """Returns a text that tells a token file from others, and nothing of its content."""
    return hashlib.sha256(content).hexdigest()[:16] if content else ""


def _token_bytes(token: Token) -> bytes:
    return b"".join(map(_block, (token.identifier, token.password, token.kind.encode(), token.service.encode())))


def _block(content: bytes) -> bytes:
    return _number(len(content)) + content


def _number(value: int) -> bytes:
    if 0 <= value <= 127:
        return bytes([value])
    content = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([256 + _LEAST_OF_ONE - len(content)]) + content


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._rest = io.BytesIO(content)

    def take(self, nbytes: int) -> bytes:
        found = self._rest.read(nbytes)
        if len(found) != nbytes:
            raise TokenFormatError("it ends in the middle of a token")
        return found

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self) -> int:
        """Returns a number that is not negative."""
        first = int.from_bytes(self.take(1), "big", signed=True)
        if first >= 0:
            return first
        if not -120 <= first < _LEAST_OF_ONE:
            raise TokenFormatError("it has a negative length")
        return int.from_bytes(self.take(_LEAST_OF_ONE - first), "big")

    def block(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        return self.block().decode(errors="replace")

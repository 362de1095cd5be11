"""The header of each message between two members, and the check that a message is the one that is due."""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

from sparktf.errors import ExchangeError

_HEADER = struct.Struct("!4sIIQB3xIQ4x")  # Padded, so that values behind it are aligned
_MAGIC = b"stfx"

HEADER_NBYTES = _HEADER.size


class OperationKind(enum.IntEnum):
    """The operations of an exchange."""

    SUM = 1
    GATHER = 2
    FROM_LEADER = 3
    FILL = 4


class Frame(NamedTuple):
    """Header of one message.

    All members run the same operations in the same order, so each knows the next header of each peer in all its
    fields, before it comes. Memory is taken for the expected length, never for a length that came.
    """

    attempt: int
    generation: int  # Of the members; one in an attempt
    operation: int  # Number of the operation in the generation, from 1
    kind: OperationKind
    part: int  # Number of the message within the operation, from 0
    nbytes: int  # Of the content that follows

    def packed(self) -> bytes:
        """Returns the header as sent."""
        return _HEADER.pack(_MAGIC, *self)

    def check(self, header: bytes | bytearray, peer: str) -> None:
        """Checks that a header that came is this one.

        Raises:
            ExchangeError: another message came, or no message of an exchange.
        """
        magic, *fields = _HEADER.unpack(header)
        if magic != _MAGIC:
            raise ExchangeError(f"{peer} sent {bytes(header[:8])!r}, which begins no message of an exchange")
        for name, came, due in zip(self._fields, fields, self, strict=True):
            if came != due:
                raise ExchangeError(
                    f"{peer} sent a message with {name} {came} where {due} was due: the members do not run the same "
                    f"operations (operation {self.operation}, {self.kind.name.lower()}, part {self.part})"
                )

"""What the coordinator asks of a parameter server's own process for a checkpoint, and what that answers.

It travels as JSON through a PyFunc that the coordinator places on the server: the way that is there between the two.
All of it is answered at once; what takes longer is set going, and looked after.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from sparktf.message import Message
from sparktf.wire.control import Flavour

SHARD = "sparktf_shard"
"""Token of the PyFunc: order -> answer, both JSON."""


class Begin(Message):
    """Makes an empty folder for what is to be written; the answer names it."""

    kind: Literal["begin"] = "begin"


class PartFile(Message):
    """A data file that has been written, with an index of its own.

    Attributes:
        local: Prefix of both in the folder.
        name: What it is called in the checkpoint.
    """

    local: str
    name: str
    nbytes: int


class Check(Message):
    """Looks whether all parts are there, since a write that TensorFlow has pruned says nothing.

    The answer has their indexes.
    """

    kind: Literal["check"] = "check"
    parts: tuple[PartFile, ...]


class Upload(Message):
    """Uploads what was checked, beside the training, and tells the driver of it."""

    kind: Literal["upload"] = "upload"
    step: int
    epoch: int
    keras: Flavour


class Fetch(Message):
    """Downloads files of a committed checkpoint; the answer names the folder where they will be."""

    kind: Literal["fetch"] = "fetch"
    path: str
    files: tuple[str, ...]


class Look(Message):
    """Looks whether what was set going is still under way, and what has come of it."""

    kind: Literal["look"] = "look"


class Drop(Message):
    """Removes what was written or fetched."""

    kind: Literal["drop"] = "drop"


ShardOrder = Begin | Check | Upload | Fetch | Look | Drop
ORDER: TypeAdapter[ShardOrder] = TypeAdapter(Annotated[ShardOrder, Field(discriminator="kind")])


class ShardAnswer(Message):
    """What a parameter server says to an order.

    Attributes:
        busy: Something is still under way.
        error: Why the order, or what was set going, has failed; "" if it has not.
        folder: Where its files are, on its own disk.
        indexes: Of the parts, in their order, in Base64.
    """

    busy: bool = False
    error: str = ""
    folder: str = ""
    indexes: tuple[str, ...] = ()

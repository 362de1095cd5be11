"""Messages between the coordinator and a parameter server's process about checkpoints.

They travel as JSON through a PyFunc that the coordinator places on the server, since no other channel connects the two.
Each is answered at once; long work runs in a thread of the server, which the coordinator polls.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from sparktf.message import Message
from sparktf.wire.control import Flavour

SHARD = "sparktf_shard"
"""Token of the PyFunc: order -> answer, both JSON."""


class Begin(Message):
    """Makes an empty folder for writing; the answer names it."""

    kind: Literal["begin"] = "begin"


class PartFile(Message):
    """A written data file with its index."""

    local: str  # Prefix of both in the folder
    name: str  # Name of the data file in the checkpoint
    nbytes: int


class Check(Message):
    """Checks that all parts exist, since TensorFlow may prune a write silently; the answer has their indexes."""

    kind: Literal["check"] = "check"
    parts: tuple[PartFile, ...]


class Upload(Message):
    """Uploads the checked files while training goes on, and reports to the driver."""

    kind: Literal["upload"] = "upload"
    step: int
    epoch: int
    keras: Flavour


class Fetch(Message):
    """Downloads files of a committed checkpoint; the answer names their folder."""

    kind: Literal["fetch"] = "fetch"
    path: str
    files: tuple[str, ...]


class Look(Message):
    """Asks for the state of the work in the thread."""

    kind: Literal["look"] = "look"


class Drop(Message):
    """Removes written or fetched files."""

    kind: Literal["drop"] = "drop"


ShardOrder = Begin | Check | Upload | Fetch | Look | Drop
ORDER: TypeAdapter[ShardOrder] = TypeAdapter(Annotated[ShardOrder, Field(discriminator="kind")])


class ShardAnswer(Message):
    """A parameter server's answer."""

    busy: bool = False  # The thread is still at work
    error: str = ""  # The error of the order or the thread; "" for none
    folder: str = ""  # Folder of the files on the server's disk
    indexes: tuple[str, ...] = ()  # Indexes of the parts in their order, in Base64

"""The messages of nodes that run a function of a guest's: what they are told, and who gets which rows."""

from __future__ import annotations

from sparktf.message import Message
from sparktf.wire.data import DataAddress


class GuestNode(Message):
    """Who a node is, as its function is told."""

    number: int  # Among all nodes, from 0 on
    job: str  # Its name in the cluster: "worker", "ps", "chief", "master" or "evaluator"
    index: int  # Among those of its name
    cluster: dict[str, tuple[str, ...]]  # Name -> addresses, in the order of the indices
    default_fs: str  # What paths without a scheme lie on
    working_dir: str  # Where the driver was started
    is_fed: bool  # Whether Spark feeds it rows


class GuestPlace(Message):
    """Where a node takes rows."""

    number: int
    host: str
    jvm: str  # Identity of its executor on `host`
    data: DataAddress


class DealRequest(Message):
    """A feeder has `rows` rows for the nodes."""

    rows: int


class Deal(Message):
    """Which node gets the first of them: the next ones follow in turn, so that all have as many, but for one."""

    first: int
    is_over: bool = False  # No node wants rows any more

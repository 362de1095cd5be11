"""The messages of nodes that run a function of a guest's: what they are told, and who gets which rows."""

from __future__ import annotations

from sparktf.message import Message
from sparktf.wire.data import DataAddress


class GuestNode(Message):
    """Who a node is, as its function is told.

    Attributes:
        number: Among all nodes, from 0 on.
        job: Its name in the cluster: "worker", "ps", "chief", "master" or "evaluator".
        index: Among those of its name.
        cluster: Name -> addresses, in the order of the indices.
        default_fs: What paths without a scheme lie on.
        working_dir: Where the driver was started.
        is_fed: Whether Spark feeds it rows.
    """

    number: int
    job: str
    index: int
    cluster: dict[str, tuple[str, ...]]
    default_fs: str
    working_dir: str
    is_fed: bool


class GuestPlace(Message):
    """Where a node takes rows.

    Attributes:
        jvm: Identity of its executor on `host`.
    """

    number: int
    host: str
    jvm: str
    data: DataAddress


class DealRequest(Message):
    """A feeder has `rows` rows for the nodes."""

    rows: int


class Deal(Message):
    """Which node gets the first of them: the next ones follow in turn, so that all have as many, but for one.

    Attributes:
        is_over: No node wants rows any more.
    """

    first: int
    is_over: bool = False

"""The messages of nodes that run a function of another package's program: their identity, and the dealing of rows."""

from __future__ import annotations

import math

from sparktf.errors import ErrorRecord
from sparktf.message import Message
from sparktf.wire.data import DataAddress


class GuestNode(Message):
    """The identity of a node, as its function sees it."""

    number: int  # Its number among all nodes, from 0
    job: str  # Its name in the cluster: "worker", "ps", "chief", "master" or "evaluator"
    index: int  # Its index among the nodes of this name
    cluster: dict[str, tuple[str, ...]]  # Name -> addresses, in the order of the indices
    default_fs: str  # File system of paths without a scheme
    working_dir: str  # Working directory of the driver
    is_fed: bool  # Whether Spark feeds it rows


class GuestPlace(Message):
    """The address at which a node takes rows."""

    number: int
    host: str
    jvm: str  # Identity of its executor on `host`
    data: DataAddress


class GuestCall(Message):
    """The header of a call that brings rows, or says that no more come."""

    partition: int | None = None  # Of the RDD
    feed_timeout_s: float = math.inf  # For the function to take rows, or give results
    after_feed_s: float = math.inf  # For it to return after the end of all rows


class DealRequest(Message):
    """A feeder has `rows` rows for the nodes; 0 where it only asks how they are."""

    rows: int


class Deal(Message):
    """The node that gets the first row; the others get the next rows in turn, so that numbers differ by at most one."""

    first: int
    is_over: bool = False  # No node wants more rows
    cause: ErrorRecord | None = None  # What ended all functions, if anything did

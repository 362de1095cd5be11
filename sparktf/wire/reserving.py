"""The messages of nodes that another package's cluster reserves: who they are to each other, before ours begin."""

from __future__ import annotations

from pydantic import Field

from sparktf.message import Message


class ReservedNode(Message):
    """A node as TensorFlowOnSpark knows it."""

    executor_id: int  # Its number among all nodes
    host: str
    job_name: str
    task_index: int
    port: int  # Bound for it; nobody listens there
    tb_pid: int
    tb_port: int
    address: str | tuple[str, int]  # Where its manager listens: a path, or a host and a port
    authkey: str = Field(repr=False)  # Of its manager, in hexadecimal digits


class ReserveRequest(Message):
    """A node asks who the others are."""

    node: ReservedNode | None = None  # It presents itself; None where it only asks


class ReservedNodes(Message):
    """The nodes that have come."""

    nodes: tuple[ReservedNode, ...]
    is_whole: bool  # Whether these are all

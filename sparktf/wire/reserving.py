"""The messages of nodes that another package's cluster reserves: who they are to each other, before ours begin."""

from __future__ import annotations

from pydantic import Field

from sparktf.message import Message


class ReservedNode(Message):
    """A node as TensorFlowOnSpark knows it.

    Attributes:
        executor_id: Its number among all nodes.
        port: Bound for it; nobody listens there.
        address: Where its manager listens: a path, or a host and a port.
        authkey: Of its manager, in hexadecimal digits.
    """

    executor_id: int
    host: str
    job_name: str
    task_index: int
    port: int
    tb_pid: int
    tb_port: int
    address: str | tuple[str, int]
    authkey: str = Field(repr=False)


class ReserveRequest(Message):
    """A node asks who the others are.

    Attributes:
        node: It presents itself; None where it only asks.
    """

    node: ReservedNode | None = None


class ReservedNodes(Message):
    """The nodes that have come.

    Attributes:
        is_whole: Whether these are all.
    """

    nodes: tuple[ReservedNode, ...]
    is_whole: bool

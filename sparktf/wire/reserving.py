"""The messages of nodes that another package's cluster reserves, which they exchange before ours begin."""

from __future__ import annotations

from pydantic import Field

from sparktf.message import Message


class ReservedNode(Message):
    """A node in TensorFlowOnSpark's form."""

    executor_id: int  # Its number among all nodes
    host: str
    job_name: str
    task_index: int
    port: int  # Bound for it; nobody listens there
    tb_pid: int
    tb_port: int
    address: str | tuple[str, int]  # Address of its manager: a path, or a host and a port
    authkey: str = Field(repr=False)  # Key of its manager, in hexadecimal digits


class ReserveRequest(Message):
    """A node asks for the other nodes."""

    node: ReservedNode | None = None  # The asking node, to be added; None if it only asks


class ReservedNodes(Message):
    """The nodes so far."""

    nodes: tuple[ReservedNode, ...]
    is_whole: bool  # Whether these are all

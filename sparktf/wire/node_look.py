"""The findings of `sparktf doctor --nodes`: told by the agents, and brought to the command by its driver."""

from __future__ import annotations

from sparktf.message import Message


class FreeDisk(Message):
    """A folder of Spark's for temporary files, and its disk."""

    folder: str
    free_mib: int


class NodeFacts(Message):
    """The host of an agent, as the agent sees it."""

    python: str  # The interpreter's path
    disk: FreeDisk | None  # Of Spark's folders the one with the least room; None if the agent knows of none
    memory_free_mib: int | None  # None if unknown
    wall_s: float  # Its clock, in seconds since 1970
    missing: tuple[str, ...] = ()  # Modules that the model's code imports, and that cannot be found there


class TriedLink(Message):
    """An attempt to connect to another node."""

    address: str
    failure: str = ""  # Why it failed; "" if it did not


class NodeLook(Message):
    """An agent tells what it sees."""

    agent: str
    facts: NodeFacts
    links: tuple[TriedLink, ...] = ()  # The addresses that it was given and has tried


class Peers(Message):
    """The addresses that an agent is to connect to; none until all nodes have come."""

    addresses: tuple[str, ...] = ()


class NodeFound(Message):
    """A node, as the driver has found it."""

    host: str
    address: str
    versions: dict[str, str]
    problems: tuple[str, ...]  # For which a run would refuse it
    facts: NodeFacts | None = None  # None if it did not tell in time
    ahead_s: float = 0.0  # How much later its clock is than the driver's
    links: tuple[TriedLink, ...] = ()


class NodesFound(Message):
    """All that a driver has found."""

    place: str = ""  # Spark's master, and the queue
    control: str = ""  # The address of the driver's control server
    wanted: int = 0
    waited_s: float = 0.0  # Until all had come, or none of the others was waited for any more
    nodes: tuple[NodeFound, ...] = ()
    executors: tuple[str, ...] = ()  # The hosts of Spark's executors, once the nodes had come or not
    versions: dict[str, str] = {}  # Of the driver
    error: str = ""  # Why a run would be refused, as it tells it; that fewer came than are wanted is none

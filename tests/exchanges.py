"""Gangs of exchanges in this process: a thread for each member, as each is for one thread."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from sparktf.trainer.sync.exchange.link import Link
from sparktf.trainer.sync.exchange.linked import LinkedExchange, partners

_Result = TypeVar("_Result")


class Linked:
    """Exchanges over pairs of sockets.

    Attributes:
        members: Each member's exchange, by rank.
        links: Their links, by rank and partner.
    """

    def __init__(self, members: int, *, leader: int = 0) -> None:
        self.links: list[dict[int, Link]] = [{} for _ in range(members)]
        for low in range(members):
            for high in (rank for rank in partners(low, members) if rank > low):
                one, other = socket.socketpair()
                pair = (f"worker {low}", f"worker {high}")
                self.links[low][high] = Link(pair[1], one, pair=pair)
                self.links[high][low] = Link(pair[0], other, pair=pair)
        self.members = [
            LinkedExchange(rank, members, leader, links, attempt=1) for rank, links in enumerate(self.links)
        ]

    def each(self, work: Callable[[LinkedExchange], _Result]) -> list[_Result]:
        """Returns the results of all members, which work at once; raises the first error."""
        with ThreadPoolExecutor(len(self.members)) as pool:
            return list(pool.map(work, self.members))

    def close(self) -> None:
        for links in self.links:
            for link in links.values():
                link.close()


@contextmanager
def linked(members: int, *, leader: int = 0) -> Iterator[Linked]:
    """Members that are linked, until the end of the block."""
    gang = Linked(members, leader=leader)
    try:
        yield gang
    finally:
        gang.close()

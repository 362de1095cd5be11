"""A member's way to the others of its gang, and to the driver, which decides who goes on after a loss."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from sparktf.errors import PeerLostError, record_of
from sparktf.topology import NodeId
from sparktf.trainer.node.place import Place, asked_until
from sparktf.trainer.node.position import Done
from sparktf.trainer.sync.exchange.linked import LinkedExchange, partners
from sparktf.trainer.sync.exchange.meeting import Membership, Peer, link_members
from sparktf.trainer.sync.exchange.outliving import GenerationEnd, GenerationsExchange, SeenGeneration
from sparktf.wire.control import Action
from sparktf.wire.regrouping import Generation, Left, NextGeneration, Regrouped
from sparktf.wire.trainer_spec import Training


class Where(NamedTuple):
    """The rows that all members have trained, in the epoch that this one is in."""

    epoch: int = 0
    is_complete: bool = False
    done: Done = Done()
    step: int = 0  # Updates of the whole run


class Regroupings:
    """See `Regrouping`.

    Attributes:
        where: Returns where this member stands; whether the operation that it is in is completed by what it was given.
        takes_lead: Called on a member that comes to lead the others, once all stand at the same operation. It is given
            the update of the last checkpoint whose files are stored.
    """

    def __init__(self, place: Place) -> None:
        """Asks nobody yet."""
        self.where: Callable[[bool], Where] = lambda was_given: Where()
        self.takes_lead: Callable[[int], None] = lambda stored: None
        self._place = place
        self._members: tuple[NodeId, ...] = tuple(place.spec.cluster.workers())
        self._addresses: tuple[str, ...] = ("",) * len(self._members)
        self._leads = False
        self._stored = -1
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="regrouped")
        self._told: Future[None] | None = None

    def exchange(self) -> GenerationsExchange:
        """Returns the exchange of the gang's first generation; waits for all of its members.

        A trainer that follows a lost one meets nobody before it joins.
        """
        spec = self._place.spec
        first = seen_by(spec.node, Generation(number=1, members=self._members, leader=spec.cluster.leader))
        if spec.incarnation:
            first = first._replace(number=0, joins=True)
        exchange = GenerationsExchange(first, self)
        self._place.generation = lambda: exchange.generation
        self._place.is_leader = lambda: exchange.leads
        self._leads = exchange.leads
        self._place.leave_at(exchange.end)
        return exchange

    def next(self, left: int, completed: int, error: PeerLostError, *, takes_in: bool) -> SeenGeneration:
        """See `Regrouping`."""
        spec = self._place.spec
        if not spec.outlives_losses:
            raise error
        self.settle()
        message = leaving(spec, left, completed, error, takes_in=takes_in, time_s=time.time())
        ask = partial(self._place.ask, Action.LEFT, message, NextGeneration)
        found = asked_until(ask, lambda said: said.generation is not None).generation
        assert found is not None
        self._members, self._addresses, self._stored = found.members, found.addresses, found.stored
        return seen_by(spec.node, found)

    def meet(self, generation: SeenGeneration, end: GenerationEnd) -> LinkedExchange:
        """See `Regrouping`."""
        spec, access = self._place.spec, self._place.client.access
        addresses = spec.cluster.workers()
        places = zip(self._members, self._addresses, strict=True)
        peers = [Peer(str(node), *_host_and_port(moved or addresses[node])) for node, moved in places]
        own = Membership(generation.rank, spec.attempt, generation.number, access.secret, access.tls)
        links = link_members(peers, own, partners(generation.rank, generation.members), end.then)
        for link in links.values():
            end.then(link.shut)
        rank, members, leader = generation.rank, generation.members, generation.leader
        return LinkedExchange(rank, members, leader, links, attempt=spec.attempt, generation=generation.number)

    def regrouped(self, generation: SeenGeneration, *, was_given: bool) -> None:
        """See `Regrouping`."""
        at = self.where(was_given)
        message = Regrouped(
            **self._place.spec.sender,
            generation=generation.number,
            epoch=at.epoch,
            is_complete=at.is_complete,
            done=tuple(at.done.intervals),
            rows_aside=at.done.rows_aside,
            step=at.step,
        )
        self._told = self._beside.submit(self._place.send, Action.REGROUPED, message)
        led, self._leads = self._leads, generation.rank == generation.leader
        takes_lead = self._leads and not led
        # Else all that follows is that the state passes from one member to another: nobody hears of that.
        if takes_lead or was_given or not generation.joined:
            self.settle()
        if takes_lead:
            self.takes_lead(self._stored)

    def settle(self) -> None:
        """See `Regrouping`. Raises `ControlError` if the driver could not be told."""
        told, self._told = self._told, None
        if told is not None:
            told.result()


def seen_by(node: NodeId, told: Generation) -> SeenGeneration:
    """Returns a generation as one of its members sees it."""
    ranks = {member: rank for rank, member in enumerate(told.members)}
    return SeenGeneration(
        told.number,
        ranks[node],
        len(told.members),
        ranks[told.leader],
        told.operation,
        None if told.giver is None else ranks[told.giver],
        joined=frozenset(ranks[member] for member in told.joined),
        joins=node in told.joined,
        is_last=told.is_last,
    )


def leaving(spec: Training, left: int, completed: int, error: PeerLostError, *, takes_in: bool, time_s: float) -> Left:
    """Returns a member's words that it has left a generation; see `Regrouping.next`."""
    record = record_of(error, time_s=time_s).model_copy(update={"node": str(spec.node), "peer": True})
    return Left(
        **spec.sender,
        generation=left,
        completed=completed,
        record=record,
        takes_in=takes_in,
        closed_by=error.closed_by,
    )


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)

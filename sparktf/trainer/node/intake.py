"""What a trainer does with rows that Spark feeds: it takes them in, and looks for more at its peers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pyarrow import flight

from sparktf.errors import NodeLostError
from sparktf.feed.channel.client import data_client
from sparktf.feed.channel.server import DataServer
from sparktf.feed.channel.staged_parts import StagedParts
from sparktf.feed.channel.staged_rows import Budget
from sparktf.feed.channel.staging import Staging
from sparktf.process.ports import started
from sparktf.results.result import NodeInput
from sparktf.sequence import Stream
from sparktf.trainer.node.place import Place
from sparktf.wire.control import Action
from sparktf.wire.data import DataAddress, Holding, Sealed, Span, StagedShare, Work, WorkRequest


class InHand(NamedTuple):
    """What a worker has of an epoch besides what waits to be read: see `Holding`."""

    in_hand: int
    receipts: int


class Intake:
    """The data server of a trainer and what waits there.

    Attributes:
        address: Where feeders find it.
    """

    def __init__(self, place: Place) -> None:
        """Starts to listen."""
        spec, work = place.spec, place.work
        data = spec.config.data
        self._place = place
        nbytes = data.staging_mib << 20
        budget = Budget(nbytes)
        # Where rows do not move between nodes, a feeder that waited for one node might keep another one's rows from it,
        # and the first waits for the second in every update: so none waits, and the rest goes to files.
        room = nbytes if data.rebalance else sys.maxsize
        self._stagings = {
            stream: Staging(spec.feed, stream, block_rows=data.shuffle_rows, budget=budget, room=room, folder=work)
            for stream in spec.staged
        }
        host = spec.cluster.address(spec.node).rpartition(":")[0]
        access = place.client.access
        common = (work, access.secret, access.tls, spec.attempt, self._stagings, self._sealed)
        self._server = started(host, spec.config.cluster.node_ports, lambda port: DataServer(host, port, *common))
        self.address: DataAddress = self._server.address

    def open(self, stream: Stream, epoch: int, share: StagedShare) -> StagedParts:
        """Begins an epoch, and returns its parts."""
        staging = self._stagings[stream]
        staging.begin(epoch, share.done, keep=share.keep, again=share.again)
        return StagedParts(staging, partial(self._find_more, stream, epoch))

    def lease(self, epoch: int, ask: Callable[[], StagedShare], held: Callable[[], InHand]) -> StagedParts:
        """Returns the parts of an epoch of the training stream, which begins when the first one is asked for.

        Args:
            ask: Asks the driver for the share, and may take its time.
            held: Returns what the worker has besides what waits here.
        """
        staging = self._stagings[Stream.TRAIN]

        def begin() -> None:
            share = ask()
            staging.begin(epoch, share.done, keep=share.keep, again=share.again)

        def holding() -> Holding:
            # In this order: whatever comes here once it is asked what else there is, is counted by the moves.
            moves, (in_hand, receipts) = staging.moves, held()
            return Holding(in_hand=in_hand, moves=moves, receipts=receipts)

        return StagedParts(staging, partial(self._find_more, Stream.TRAIN, epoch, holding), begin)

    def input(self, stream: Stream) -> NodeInput:
        """Returns what has come in for the current epoch of a stream."""
        return self._stagings[stream].input

    def _sealed(self, span: Span, rows: int) -> None:
        self._place.send(Action.SEALED, Sealed(**self._place.spec.sender, span=span, rows=rows))

    def _find_more(self, stream: Stream, epoch: int, holding: Callable[[], Holding] | None = None) -> bool | None:
        """Takes rows from a node that has some; see `StagedParts`."""
        spec = self._place.spec
        span = Span(attempt=spec.attempt, stream=stream, epoch=epoch)
        starved_s, held = self._stagings[stream].starved_s, None if holding is None else holding()
        request = WorkRequest(**spec.sender, span=span, starved_s=starved_s, holding=held)
        work = self._place.ask(Action.WORK, request, Work)
        for peer in work.peers:
            if self._take(peer, span):
                return True
        if work.ended:
            return False
        return None if work.fed else True

    def _take(self, peer: DataAddress, span: Span) -> bool:
        try:
            with data_client(peer, self._place.client.access) as node:
                return node.fetch_block(span, self._stagings[span.stream])
        except (flight.FlightError, NodeLostError):
            return False  # it is gone, or in another epoch: the driver knows more

"""Takes in the rows that Spark feeds to a trainer, and fetches more from its peers.

An epoch of fed rows ends when no worker has a row left. Under parameter servers each worker therefore reports its
`Holding` whenever it has run dry; the driver ends the epoch after two rounds of equal reports (Mattern's termination
detection; see `Claims`). The rows that a worker holds, and those that have moved in or out, must be counted so that a
row in transit is always seen by one of the two: see `Intake.lease`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pyarrow import flight

from sparktf.errors import NodeLostError
from sparktf.feed.channel.client import data_client
from sparktf.feed.channel.server import ChannelServer, SplitServer
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
    """A worker's unfinished rows besides those that wait to be read, and its receipts: see `Holding`."""

    in_hand: int
    receipts: int


class Intake:
    """The data server of a trainer, at `address`, and its stagings."""

    def __init__(self, place: Place) -> None:
        """Starts to listen."""
        spec, work = place.spec, place.work
        data = spec.config.data
        self._place = place
        nbytes = data.staging_mib << 20
        budget = Budget(nbytes)
        # If rows do not move between nodes, a feeder that waits for room at one node may hold back the rows of another
        # one, for which the first waits in every update: a deadlock. So none waits, and the rest goes to files.
        room = nbytes if data.rebalance else sys.maxsize
        self._stagings = {
            stream: Staging(spec.feed, stream, block_rows=data.shuffle_rows, budget=budget, room=room, folder=work)
            for stream in spec.staged
        }
        host = spec.cluster.address(spec.node).rpartition(":")[0]
        access = place.client.access
        start = partial(SplitServer, spec.attempt, self._stagings, self._sealed)
        common = (work, access.secret, access.tls, start)
        self._server = started(host, spec.config.cluster.node_ports, lambda port: ChannelServer(host, port, *common))
        self.address: DataAddress = self._server.address

    def open(self, stream: Stream, epoch: int, share: StagedShare) -> StagedParts:
        """Begins an epoch; returns its parts."""
        staging, generation = self._stagings[stream], share.generation
        said = {"keep": share.keep, "again": share.again, "rest": share.rest}
        staging.begin(epoch, share.done, generation=generation, **said)
        find_more = partial(self._find_more, stream, epoch, generation=generation)
        return StagedParts(staging, find_more, at=(epoch, generation))

    def lease(self, epoch: int, ask: Callable[[], StagedShare], held: Callable[[], InHand]) -> StagedParts:
        """Returns the parts of a training epoch, which begins when the first one is asked for.

        Args:
            ask: Asks the driver for the share; may block.
            held: Returns the worker's rows besides those that wait here.
        """
        staging = self._stagings[Stream.TRAIN]

        def begin() -> None:
            share = ask()
            staging.begin(epoch, share.done, keep=share.keep, again=share.again)

        def holding() -> Holding:
            # Read the moves first: rows that come in after `held` then change the moves of the next report.
            moves, (in_hand, receipts) = staging.moves, held()
            return Holding(in_hand=in_hand, moves=moves, receipts=receipts)

        return StagedParts(staging, partial(self._find_more, Stream.TRAIN, epoch, holding), begin)

    def input(self, stream: Stream) -> NodeInput:
        """Returns the input of a stream's current epoch."""
        return self._stagings[stream].input

    def _sealed(self, span: Span, rows: int) -> None:
        self._place.send(Action.SEALED, Sealed(**self._place.spec.sender, span=span, rows=rows))

    def _find_more(
        self, stream: Stream, epoch: int, holding: Callable[[], Holding] | None = None, *, generation: int = 1
    ) -> bool | None:
        """Fetches rows from a peer that has some; see `StagedParts`."""
        spec = self._place.spec
        span = Span(attempt=spec.attempt, stream=stream, epoch=epoch, generation=generation)
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
            return False  # the peer is gone, or in another epoch: ask the driver again

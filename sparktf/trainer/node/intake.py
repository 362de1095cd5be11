"""What a trainer does with rows that Spark feeds: it takes them in, and looks for more at its peers."""

from __future__ import annotations

import sys
from functools import partial

from pyarrow import flight

from sparktf.feed.client import data_client
from sparktf.feed.server import DataServer
from sparktf.feed.staged_parts import StagedParts
from sparktf.feed.staged_rows import Budget
from sparktf.feed.staging import Staging
from sparktf.ports import at_free_port
from sparktf.result import NodeInput
from sparktf.sequence import Stream
from sparktf.trainer.node.place import Place
from sparktf.wire.control import Action
from sparktf.wire.data import DataAddress, Sealed, Span, StagedShare, Work, WorkRequest


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
        host = spec.cluster.worker[spec.node.index].rpartition(":")[0]
        access = place.client.access
        common = (work, access.secret, access.tls, spec.attempt, self._stagings, self._sealed)
        self._server = at_free_port(spec.config.cluster.node_ports, lambda port: DataServer(host, port, *common))
        self.address: DataAddress = self._server.address

    def open(self, stream: Stream, epoch: int, share: StagedShare) -> StagedParts:
        """Begins an epoch, and returns its parts."""
        staging = self._stagings[stream]
        staging.begin(epoch, share.done, keep=share.keep, again=share.again)
        return StagedParts(staging, partial(self._find_more, stream, epoch))

    def input(self, stream: Stream) -> NodeInput:
        """Returns what has come in for the current epoch of a stream."""
        return self._stagings[stream].input

    def _sealed(self, span: Span, rows: int) -> None:
        self._place.send(Action.SEALED, Sealed(**self._place.spec.sender, span=span, rows=rows))

    def _find_more(self, stream: Stream, epoch: int) -> bool:
        """Takes rows from a node that has some; returns False when no more will come."""
        spec = self._place.spec
        span = Span(attempt=spec.attempt, stream=stream, epoch=epoch)
        request = WorkRequest(**spec.sender, span=span, starved_s=self._stagings[stream].starved_s)
        work = self._place.ask(Action.WORK, request, Work)
        for peer in work.peers:
            if self._take(peer, span):
                return True
        return not work.ended

    def _take(self, peer: DataAddress, span: Span) -> bool:
        try:
            with data_client(peer, self._place.client.access) as node:
                return node.fetch_block(span, self._stagings[span.stream])
        except flight.FlightError:
            return False  # it is gone, or in another epoch: the driver knows more

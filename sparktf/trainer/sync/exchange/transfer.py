"""Moves the messages of one step, each way at once, in one thread: whatever a socket takes or has, until it is done."""

from __future__ import annotations

import select
from typing import Any

import numpy as np
import numpy.typing as npt

from sparktf.trainer.sync.exchange.frames import HEADER_NBYTES, Frame
from sparktf.trainer.sync.exchange.link import READS, WRITES, Link

CHUNK_NBYTES = 1 << 20
"""Received before it is added: it stays in the processor's cache."""

SMALL_NBYTES = 65_536
"""Up to here a message is sent and received with its header, in one call each: calls cost more than bytes."""

_LOOK_S = 1.0

Array = npt.NDArray[Any]


class Outgoing:
    """A message on its way to a peer."""

    def __init__(self, link: Link, frame: Frame, content: Array) -> None:
        """Takes the bytes of a contiguous array."""
        self.link = link
        if content.nbytes <= SMALL_NBYTES:  # One call takes less time than no copy saves
            self._views = [memoryview(frame.packed() + content.tobytes())]
        else:
            self._views = [memoryview(frame.packed()), bytes_of(content)]
        self.wanted = WRITES

    @property
    def is_done(self) -> bool:
        return not self._views

    def advance(self) -> bool:
        """Sends what fits; returns whether that was anything."""
        sent, self.wanted = self.link.send(self._views[0])
        rest = self._views[0][sent:]
        self._views[:1] = [rest] if len(rest) else []
        return sent > 0


class Incoming:
    """A message that is due from a peer, written over an array, by itself or added to values."""

    def __init__(self, link: Link, frame: Frame, into: Array, spare: Array, *, add: Array | None) -> None:
        """Expects a message.

        Args:
            into: Contiguous; its bytes are those of the message.
            spare: `CHUNK_NBYTES`, uint8: for the header, and for values before they are added.
            add: To these values the message is added, and the sums are written over `into`; may be `into`.
        """
        self.link = link
        self._frame = frame
        self._into = into
        self._spare = spare
        self._add = add
        self._done = 0  # Items of `into`
        self._in_header = True
        self._began = False  # Whether the header of a large message has come
        self._is_small = frame.nbytes <= SMALL_NBYTES
        self._end = HEADER_NBYTES + frame.nbytes * self._is_small
        self._view = spare[: self._end].data
        self.is_done = False
        self.wanted = READS

    def advance(self) -> bool:
        """Receives what is there; returns whether that was anything."""
        count, self.wanted = self.link.receive(self._view)
        if count:
            self._view = self._view[count:]
            # At once: a peer that sends another message may send no more.
            if self._in_header and self._end - len(self._view) >= HEADER_NBYTES:
                self._frame.check(self._spare[:HEADER_NBYTES].tobytes(), self.link.peer)
                self._in_header = False
            if not len(self._view):
                self._next()
        return count > 0

    def _next(self) -> None:
        """Takes the values that have come; goes on with the next ones."""
        if self._is_small:
            self._take(len(self._into), HEADER_NBYTES)
        elif self._began and self._add is not None:
            self._take(self._chunk(), 0)
        elif self._began:
            self._done = len(self._into)
        self._began = True
        if self._done == len(self._into):
            self.is_done = True
        else:
            nbytes = self._chunk() * self._into.itemsize
            self._view = bytes_of(self._into) if self._add is None else self._spare[:nbytes].data

    def _take(self, items: int, begin: int) -> None:
        """Takes the next items out of `spare`."""
        these = slice(self._done, self._done + items)
        into = self._into[these]
        came = self._spare[begin : begin + into.nbytes].view(into.dtype).reshape(into.shape)
        if self._add is None:
            into[...] = came
        else:
            np.add(self._add[these], came, out=into)
        self._done += items

    def _chunk(self) -> int:
        """Returns the number of items of the next chunk."""
        return min(CHUNK_NBYTES // self._into.itemsize, len(self._into) - self._done)


def move(outgoing: Outgoing | None, incoming: Incoming | None) -> None:
    """Sends one message while another is received; returns when both are done, however long a peer computes.

    Nothing but the link's loss ends the wait: the driver's order to stop ends the process.
    """
    while True:
        open_ = [each for each in (outgoing, incoming) if each is not None and not each.is_done]
        if not open_:
            return
        advanced = [each.advance() for each in open_]  # each of them, whether or not another has
        if not any(advanced):
            _wait(open_)


def _wait(open_: list[Outgoing | Incoming]) -> None:
    poll = select.poll()
    events: dict[int, int] = {}
    for each in open_:
        asked = select.POLLIN * each.wanted.read | select.POLLOUT * each.wanted.write
        events[each.link.sock.fileno()] = events.get(each.link.sock.fileno(), 0) | asked
    for descriptor, asked in events.items():
        poll.register(descriptor, asked)
    if not poll.poll(_LOOK_S * 1000):
        for each in open_:
            each.link.check()


def bytes_of(array: Array) -> memoryview:
    """Returns the bytes of a contiguous array, which may be of a type that `memoryview` does not know (bfloat16)."""
    return array.view(np.uint8).reshape(-1).data

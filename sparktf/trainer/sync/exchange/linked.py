"""Sums, gathers and copies over the members of a gang.

Theory. Every operation is a call on each member, in the same order everywhere. It ends only when all have taken part,
and an operation that one member does not begin is never finished by the others: they wait, since a peer may compute for
minutes, until the driver, which hears every member's beats, says that it is lost.

- A large sum goes around a ring (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
  workstations"): each array is cut into as many parts as there are members. In n-1 steps each member receives a part
  from the one before it, adds its own, and sends it on (reduce-scatter); in n-1 more steps the sums go around
  (all-gather). Each member sends 2 (n-1)/n of the size, whatever n is.
- A small sum is a matter of rounds and not of bytes: in round k, members whose ranks differ in bit k alone tell each
  other their sums (recursive doubling; Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
  operations in MPICH"). Beyond the largest power of two, each member first gives its values to one below, and gets the
  sum in the end.
- Both add in an order that depends on ranks and sizes alone, and each sum is either made once and copied, or made by
  both sides as x + y and y + x, which are the same bits. So all members hold the same bits, and the same members give
  the same bits again.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Container, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from sparktf.errors import ExchangeError
from sparktf.trainer.sync.exchange.frames import Frame, OperationKind
from sparktf.trainer.sync.exchange.link import Link
from sparktf.trainer.sync.exchange.transfer import (
    CHUNK_NBYTES,
    SMALL_NBYTES,
    Array,
    Incoming,
    Outgoing,
    move,
)

PACKED_NBYTES = 1 << 20
"""Up to here arrays share a message; larger ones are sent and added where they are, since copying them takes longer."""

ALIGNED_NBYTES = 64
"""TensorFlow copies values at other addresses."""


def partners(rank: int, members: int) -> set[int]:
    """Returns the ranks that a member has a connection to: its neighbours in the ring, and its partners in rounds."""
    power = 1 << (members.bit_length() - 1)
    found = {(rank - 1) % members, (rank + 1) % members}
    if rank >= power:
        found.add(rank - power)
    else:
        found |= {rank ^ bit for bit in (1 << k for k in range(power.bit_length() - 1))}
        found |= {rank + power} if rank + power < members else set()
    return found - {rank}


class LinkedExchange:
    """The operations of `Exchange`, over a link to each of `partners`; for one thread."""

    def __init__(
        self, rank: int, members: int, leader: int, links: Mapping[int, Link], *, attempt: int, generation: int = 1
    ) -> None:
        """Takes over links, by rank.

        Args:
            leader: Rank of the leader.
        """
        self.rank = rank
        self.members = members
        self.leads = rank == leader
        self._leader = leader
        self._links = links
        self._attempt = attempt
        self._generation = generation
        self._operation = 0
        self._part = 0
        self._kind = OperationKind.SUM
        self._spare = np.empty(CHUNK_NBYTES, np.uint8)
        self._buffers = Buffers()

    @np.errstate(over="ignore", invalid="ignore")  # A gradient that is not finite is the model's to tell of
    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        """See `Exchange`."""
        self._begin(OperationKind.SUM)
        given = [np.asarray(array, order="C") for array in arrays]  # which keeps a scalar one
        own = self._buffers.of(given)
        for values in own.packed:
            if values.nbytes <= SMALL_NBYTES:  # Rounds cost more than bytes
                self._add_in_rounds(values)
            else:
                self._add_around(values, values)
        for array, values in zip(given, own.parts, strict=True):
            if array.nbytes > PACKED_NBYTES:
                self._add_around(array.reshape(-1), values.reshape(-1))
        return own.given()

    def gather(self, array: Array) -> list[Array]:
        """See `Exchange`."""
        self._begin(OperationKind.GATHER)
        lengths = np.zeros(self.members, np.int64)
        lengths[self.rank] = len(array)
        self._add_in_rounds(lengths)
        parts = self._parts(array, lengths.tolist())
        parts[self.rank][:] = array
        self._pass_around(parts, self.rank)
        return parts

    def from_leader(self, arrays: Sequence[Array]) -> list[Array]:
        """See `Exchange`."""
        return self.from_member(self._leader, arrays)

    def from_member(self, giver: int, arrays: Sequence[Array]) -> list[Array]:
        """Returns the arrays of one member, by rank, as `from_leader` returns the leader's."""
        self._begin(OperationKind.FROM_LEADER)
        place = (self.rank - giver) % self.members  # In the chain that begins with the giver
        if place:
            copies = [np.empty(array.shape, array.dtype) for array in arrays]
        else:  # sent as they are, without a copy of a large state
            copies = [np.asarray(array, order="C") for array in arrays]
        self._pass_along(copies, takes=place > 0, gives=place < self.members - 1)
        self._add_in_rounds(np.zeros(1, np.int64))  # The giver ends no earlier than all have begun
        return copies

    def fill(self, arrays: Sequence[Array], takers: Container[int]) -> list[Array]:
        """Writes over the arrays of some members, by rank, those of the member before them in the ring.

        Each that is no taker gives, if the one after it takes: many may at once. No other has anything to do with it.

        Args:
            arrays: Of one shape and one type everywhere; those of takers are contiguous.

        Returns:
            Nothing: a taker has its arrays, and the others need none.
        """
        self._begin(OperationKind.FILL)
        takes, gives = self.rank in takers, (self.rank + 1) % self.members in takers
        self._pass_along([np.asarray(array, order="C") for array in arrays], takes=takes, gives=gives)
        self._add_in_rounds(np.zeros(1, np.int64))  # Nobody ends before all have begun, and takers have all
        return []

    def sum_and_gather(self, dense: Sequence[Array], rows: Sequence[Array]) -> list[Array]:
        """See `Exchange`."""
        return [*self.sum(dense), *(np.concatenate(self.gather(of)) for of in rows)]

    def close(self) -> None:
        """Closes all connections: peers that wait for this member find it gone."""
        for link in self._links.values():
            link.close()

    # ---- steps ----

    def _parts(self, array: Array, lengths: list[int]) -> list[Array]:
        """Returns memory for the rows of all members, behind each other.

        Raises:
            ExchangeError: the numbers of rows cannot be right.
        """
        ends = list(accumulate(lengths))
        try:
            if min(lengths) < 0 or lengths[self.rank] != len(array):
                raise ValueError("a number is not that of its rows")
            whole = np.empty((ends[-1], *array.shape[1:]), array.dtype)  # The system gives pages as they are written
        except (ValueError, MemoryError) as error:
            peers = " or ".join(link.peer for link in self._links.values())
            raise ExchangeError(f"{peers} said that members have {lengths} rows to gather: {error}") from error
        return [whole[end - length : end] for end, length in zip(ends, lengths, strict=True)]

    def _begin(self, kind: OperationKind) -> None:
        self._operation, self._part, self._kind = self._operation + 1, 0, kind

    def _frame(self, part: int, content: Array) -> Frame:
        return Frame(self._attempt, self._generation, self._operation, self._kind, part, content.nbytes)

    def _move(
        self,
        to: int | None,
        out: Array | None,
        by: int | None,
        into: Array | None,
        *,
        add: Array | None = None,
        parts: tuple[int, int] | None = None,
    ) -> None:
        """Sends an array to a member while one is received from another; see `Incoming`."""
        sent, received = parts or (self._part, self._part)
        self._part += parts is None
        if to is None and by is None:
            return
        outgoing = incoming = None
        if to is not None and out is not None:
            outgoing = Outgoing(self._links[to], self._frame(sent, out), out)
        if by is not None and into is not None:
            frame = self._frame(received, into)
            incoming = Incoming(self._links[by], frame, into, self._spare, add=add)
        move(outgoing, incoming)

    def _add_in_rounds(self, values: Array) -> None:
        power = 1 << (self.members.bit_length() - 1)
        rank, beyond = self.rank, self.rank + power
        if rank >= power:
            self._move(rank - power, values, None, None)
            self._part += power.bit_length() - 1
            self._move(None, None, rank - power, values)
            return
        self._move(None, None, beyond if beyond < self.members else None, values, add=values)
        for bit in (1 << k for k in range(power.bit_length() - 1)):
            self._move(rank ^ bit, values, rank ^ bit, values, add=values)  # A small message is sent from a copy
        self._move(beyond if beyond < self.members else None, values, None, None)

    def _add_around(self, given: Array, into: Array) -> None:
        """Writes the sums of what all have been given into an array, which may be the same one."""
        ends = [len(given) * i // self.members for i in range(self.members + 1)]
        own = [given[begin:end] for begin, end in pairwise(ends)]
        sums = [into[begin:end] for begin, end in pairwise(ends)]
        after, before = (self.rank + 1) % self.members, (self.rank - 1) % self.members
        out = own[self.rank]
        if self.members == 1 and into is not given:
            into[...] = given
        for step in range(self.members - 1):
            place = (self.rank - step - 1) % self.members
            self._move(after, out, before, sums[place], add=own[place])
            out = sums[place]
        self._pass_around(sums, after)

    def _pass_around(self, parts: Sequence[Array], own: int) -> None:
        """Gives all members all parts, of which each has its own."""
        after, before = (self.rank + 1) % self.members, (self.rank - 1) % self.members
        for step in range(self.members - 1):
            self._move(after, parts[(own - step) % self.members], before, parts[(own - step - 1) % self.members])

    def _pass_along(self, arrays: Sequence[Array], *, takes: bool, gives: bool) -> None:
        """Passes arrays along the ring, from a member that gives to those behind it that take."""
        after = (self.rank + 1) % self.members if gives else None
        before = (self.rank - 1) % self.members if takes else None
        for values in (array.reshape(-1) for array in arrays):
            step = max(CHUNK_NBYTES // values.itemsize, 1)
            self._pass_chunks([values[i : i + step] for i in range(0, len(values), step)], before, after)

    def _pass_chunks(self, chunks: Sequence[Array], before: int | None, after: int | None) -> None:
        """Passes chunks along; each member sends one on while it receives the next."""
        first = self._part
        for step in range(len(chunks) + 1):
            # Who gives has the chunks; others send what they have received a step before.
            out = chunks[step - 1] if step else None
            into = chunks[step] if step < len(chunks) else None
            self._move(after, out, before, into, parts=(first + step - 1, first + step))
        self._part = first + len(chunks)


class InBuffers:
    """Memory for the sums of arrays.

    Attributes:
        packed: For each type, one buffer for all arrays of up to `PACKED_NBYTES`.
        parts: Each array's sum: in a buffer or, if it is larger, by itself.
    """

    def __init__(self, arrays: Sequence[Array]) -> None:
        """Takes memory for the shapes and types of arrays."""
        self.packed: list[Array] = []
        self.parts = [aligned(array.shape if array.nbytes > PACKED_NBYTES else (0,), array.dtype) for array in arrays]
        self._pack(arrays)
        large = [part for part, array in zip(self.parts, arrays, strict=True) if array.nbytes > PACKED_NBYTES]
        self._memory = [array.base for array in (*self.packed, *large)]
        self._own = self._references()

    @property
    def is_held(self) -> bool:
        """Whether somebody else has one of the sums, or a part of it."""
        return self._references() != self._own

    def given(self) -> list[Array]:
        """Returns the sums to somebody else."""
        return [part.view() for part in self.parts]

    def _pack(self, arrays: Sequence[Array]) -> None:
        small: dict[np.dtype[Any], list[int]] = {}
        for place, array in enumerate(arrays):
            if array.nbytes <= PACKED_NBYTES:
                small.setdefault(array.dtype, []).append(place)
        for kind, places in small.items():
            begins = [0]
            for place in places:
                nbytes = -(-arrays[place].nbytes // ALIGNED_NBYTES) * ALIGNED_NBYTES
                begins.append(begins[-1] + nbytes // kind.itemsize)
            self.packed.append(aligned((begins[-2] + arrays[places[-1]].size,), kind))
            for place, begin in zip(places, begins, strict=False):
                values = self.packed[-1][begin : begin + arrays[place].size]
                self.parts[place] = values.reshape(arrays[place].shape)

    def _references(self) -> list[int]:
        return [sys.getrefcount(memory) for memory in self._memory]  # NumPy's views all name the whole


class Buffers:
    """The exchange's own memory, two of each kind, used in turn, and more while results are held.

    TensorFlow reads a result without a copy, and may keep it: a variable to which it is assigned lies in this memory,
    and so may one to which something is assigned that was computed in place. Written over, it would have another value.
    """

    def __init__(self) -> None:
        self._of: dict[tuple[tuple[np.dtype[Any], tuple[int, ...]], ...], list[InBuffers]] = {}

    def of(self, arrays: Sequence[Array]) -> InBuffers:
        """Returns memory for arrays, with copies of those that are packed."""
        known = self._of.setdefault(tuple([(array.dtype, array.shape) for array in arrays]), [])
        chosen = next((each for each in known if not each.is_held), None) if len(known) > 1 else None
        if chosen is None:
            chosen = InBuffers(arrays)
        else:
            known.remove(chosen)
        known.append(chosen)  # the one that was used last
        for part, array in zip(chosen.parts, arrays, strict=True):
            if array.nbytes <= PACKED_NBYTES:
                part[...] = array
        return chosen


def aligned(shape: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    """Returns an array of zeros at an address that TensorFlow takes without a copy."""
    nbytes = math.prod(shape) * kind.itemsize
    memory = np.zeros(nbytes + ALIGNED_NBYTES, np.uint8)
    begin = -memory.ctypes.data % ALIGNED_NBYTES
    return memory[begin : begin + nbytes].view(kind).reshape(shape)

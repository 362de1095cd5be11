"""How often rows may be in the weights more than once, by what workers did: apart from what the driver says of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from simulation.hub import Process

from sparktf.sequence import Piece
from sparktf.topology import NodeId


class Lessee(NamedTuple):
    """One incarnation of a worker, in one attempt of one driver."""

    driver: str
    attempt: int
    node: NodeId
    incarnation: int


class Replays:
    """Who was given which rows, by epoch, and what became of them."""

    def __init__(self, untold: int | None) -> None:
        """Knows of nobody.

        Args:
            untold: Where Spark feeds the rows: so many of them, at most, nobody was told of that a lost worker trained.
        """
        self._untold = untold
        self._leases: dict[tuple[Lessee, int, int], int] = {}
        self._told: Counter[tuple[Lessee, int]] = Counter()
        self._unmarked: defaultdict[Lessee, Counter[int]] = defaultdict(Counter)
        self._closed: set[Lessee] = set()
        self._workers: dict[Lessee, Process] = {}
        self._in_doubt: Counter[tuple[Lessee, int]] = Counter()

    def begun(self, lessee: Lessee, process: Process) -> None:
        """Notes that a worker is started."""
        self._workers[lessee] = process

    def leased(self, lessee: Lessee, epoch: int, number: int, pieces: tuple[Piece, ...]) -> None:
        """Notes an answer of the driver's; given again, it counts once, also where it is empty by then."""
        self._leases.setdefault((lessee, epoch, number), sum(piece.rows for piece in pieces))

    def handed(self, lessee: Lessee, epoch: int, rows: int) -> None:
        """Notes that a worker hands rows to an execution; with a minus, that they are marked as trained."""
        self._unmarked[lessee][epoch] += rows

    def told(self, lessee: Lessee, epoch: int, rows: int) -> None:
        """Notes that a coordinator takes a receipt."""
        self._told[lessee, epoch] += rows

    def closed(self, lessee: Lessee) -> None:
        """Notes that a coordinator takes nothing more."""
        self._closed.add(lessee)

    def is_closed(self, lessee: Lessee) -> bool:
        """Whether a coordinator has said that it takes nothing more."""
        return lessee in self._closed

    def in_doubt(self, coordinator: Lessee, epoch: int, rows: int) -> None:
        """Notes what a coordinator says with a checkpoint, which a later attempt may go on from."""
        self._in_doubt[coordinator, epoch] = max(self._in_doubt[coordinator, epoch], rows)

    def most(self, epoch: int) -> int:
        """Returns how many rows may be replayed, and no more: what was handed to executions that did not mark it,
        what a lost worker had leased and nobody was told of, and what each attempt's coordinator took for possible."""
        unmarked = sum(rows[epoch] for rows in self._unmarked.values())
        unmarked += sum(rows for (_, at), rows in self._in_doubt.items() if at == epoch)
        if self._untold is not None:
            gone = {lessee for lessee, process in self._workers.items() if process.dead or process.frozen}
            return self._untold * len(gone | self._closed) + unmarked
        leased = sum(rows for (lessee, at, _), rows in self._leases.items() if at == epoch and lessee in self._closed)
        told = sum(rows for (lessee, at), rows in self._told.items() if at == epoch and lessee in self._closed)
        return leased - told + unmarked

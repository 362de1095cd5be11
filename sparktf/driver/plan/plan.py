"""The plan of a run's input: the reads of each stream, block by block."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt

from sparktf.driver.plan.dealing import BlockHosts, DealtSlices, deal_slices, homes_of, share_locally
from sparktf.driver.plan.locality import NO_HOST, Replicas, distinct, ranges
from sparktf.feature import FeedSpec
from sparktf.sequence import (
    Assignment,
    EpochOrder,
    FileStamp,
    Integers,
    Interval,
    Keep,
    PartitionValue,
    Piece,
    Slices,
    Split,
    Stream,
)

NODES = "nodes.json"
"""Beside the plan: the hosts of its first attempt's nodes."""

_HOST, _HOST_NBYTES = "host/", "host_nbytes/"


@dataclass(frozen=True, eq=False)
class SplitTable:
    """The splits of one stream as columns, int64 [n_splits] each, sorted by block."""

    keep: Keep  # The stream's part of the rows of a row group
    block: Integers  # Shuffle block, numbered from 0 without a gap
    file: Integers  # Index into `Plan.files`
    row_group: Integers
    group_rows: Integers
    selected: Integers  # Rows of the row group that pass the source's filter
    held_out: Integers  # Rows among these drawn by the validation fraction
    nbytes: Integers  # Bytes of the used columns, as stored
    replicas: Replicas  # Their hosts

    @cached_property
    def rows(self) -> Integers:
        """int64 [n_splits], rows of each split that belong to the stream."""
        if self.keep is Keep.ALL:
            return self.selected
        return self.held_out if self.keep is Keep.VALIDATION else self.selected - self.held_out

    @cached_property
    def block_starts(self) -> Integers:
        """int64 [n_blocks + 1], where the splits of each block start."""
        n_blocks = int(self.block[-1]) + 1 if len(self.block) else 0
        return np.searchsorted(self.block, np.arange(n_blocks + 1)).astype(np.int64)

    @cached_property
    def block_rows(self) -> Integers:
        """int64 [n_blocks], rows of each shuffle block."""
        return np.diff(np.concatenate([[0], np.cumsum(self.rows)])[self.block_starts]).astype(np.int64)

    @cached_property
    def block_hosts(self) -> BlockHosts:
        """How much of each shuffle block each host holds."""
        return BlockHosts.of(self.block, self.replicas)

    def columns(self) -> dict[str, Integers]:
        """Returns the columns by name; of the replicas, one column for each place."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        del plain["keep"]
        replicas = plain.pop("replicas")
        for i in range(replicas.host.shape[1]):
            plain[f"{_HOST}{i}"], plain[f"{_HOST_NBYTES}{i}"] = replicas.host[:, i], replicas.nbytes[:, i]
        return plain

    @classmethod
    def from_columns(cls, keep: Keep, columns: Mapping[str, Integers]) -> SplitTable:
        """Returns the table that `columns` was called on."""
        plain = {name: column for name, column in columns.items() if "/" not in name}
        host, nbytes = ([c for name, c in columns.items() if name.startswith(kind)] for kind in (_HOST, _HOST_NBYTES))
        replicas = Replicas(np.stack(host, 1), np.stack(nbytes, 1)) if host else Replicas.unknown(len(plain["block"]))
        return cls(keep, **plain, replicas=replicas)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SplitTable):
            return NotImplemented
        mine, theirs = self.columns(), other.columns()
        same = self.keep is other.keep and mine.keys() == theirs.keys()
        return same and all(np.array_equal(column, theirs[name]) for name, column in mine.items())

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Plan:
    """The input of a run. Made once, stored with the run, the same for every attempt."""

    spec: FeedSpec
    plan_hash: str  # `JobConfig.plan_hash` of the configuration it was made for
    files: tuple[str, ...]  # Path of each file
    partition_values: tuple[tuple[PartitionValue, ...], ...]  # For each file, its values of `spec.partition_columns`
    tables: Mapping[Stream, SplitTable]  # The splits of each stream
    hosts: tuple[str, ...] = ()  # The hosts of the files, in the order of the replicas' numbers
    staged: tuple[Stream, ...] = ()  # The streams that Spark feeds, of unknown rows: they have no table
    # int64 [n_files, 3], the `FileStamp` of each file; None where an earlier version made the plan
    stamps: npt.NDArray[np.int64] | None = field(default=None, compare=False)
    # Version of a Delta table, or snapshot of an Iceberg table; None for other sources
    source_version: int | None = None

    __hash__ = None  # type: ignore[assignment]

    def rows(self, stream: Stream) -> int:
        """Returns the rows of one epoch; 0 for a missing stream."""
        return int(self.block_rows(stream).sum())

    def nbytes(self, stream: Stream) -> int:
        """Returns the bytes that one epoch reads from files."""
        return int(self.tables[stream].nbytes.sum()) if stream in self.tables else 0

    def block_rows(self, stream: Stream) -> Integers:
        """Returns int64 [n_blocks], rows of each shuffle block."""
        return self.tables[stream].block_rows if stream in self.tables else np.empty(0, np.int64)

    def order(self, stream: Stream, epoch: int) -> EpochOrder:
        """Returns the order of the blocks in an epoch; only a shuffled training stream has a new one in each."""
        shuffled = self.spec.shuffle and stream is Stream.TRAIN
        return EpochOrder(self.block_rows(stream), epoch=epoch, seed=self.spec.seed if shuffled else None)

    def assignments(
        self,
        stream: Stream,
        epoch: int,
        intervals: Sequence[Interval],
        nodes: Sequence[str],
        *,
        rebalance: bool,
        locality: bool = True,
        sticky: bool = False,
    ) -> Assignments:
        """Deals intervals of the epoch sequence to nodes, to each the rows on its host first.

        Args:
            nodes: The host of each node.
            rebalance: See `sparktf.driver.plan.dealing.deal_slices`.
            locality: Whether to deal by where the data lies; `Split.local_nbytes` says it either way.
            sticky: Give each node, where nothing lies beside any, the blocks that it had in the epoch before: it keeps
                their rows.

        Returns:
            The reads of each node: of its own part only, made when it is asked for.
        """
        order, hosts = self.order(stream, epoch), [self.host_number(node) for node in nodes]
        if locality and any(host != NO_HOST for host in hosts):
            slices, table = order.slices(intervals), self.tables[stream]
            local = table.block_hosts.local_nodes(hosts, len(table.block_rows))
            shares = share_locally(slices, local, len(nodes), rebalance=rebalance)
        elif sticky and len(nodes) > 1:
            homes = homes_of(self.block_rows(stream), len(nodes))
            shares = share_locally(order.slices(intervals), homes, len(nodes), rebalance=rebalance)
        else:
            shares = deal_slices(order, intervals, len(nodes), rebalance=rebalance)
        return Assignments(self, stream, epoch, hosts, shares)

    def pieces(self, stream: Stream, slices: Slices, host: int) -> tuple[Piece, ...]:
        """Returns the reads for slices of blocks, one piece for each, for the host of a number."""
        splits = iter(self._splits(stream, slices.block, host)) if len(slices.block) else iter(())
        # Values of the plan need no validation, which would copy every split.
        return tuple(
            Piece.model_construct(block=block, start=start, stop=stop, first_row=first_row, splits=next(splits))
            for block, start, stop, first_row in slices.tolist()
        )

    def _splits(self, stream: Stream, blocks: Integers, host: int) -> Iterator[tuple[Split, ...]]:
        """Yields the splits of each of some blocks, for a node on a host."""
        table = self.tables[stream]
        starts = table.block_starts[blocks]
        counts = table.block_starts[blocks + 1] - starts
        rows = ranges(starts, counts)
        replicas = table.replicas.take(rows)
        local = np.where((replicas.host == host) & (host != NO_HOST), replicas.nbytes, 0).sum(axis=1)
        file, row_group, *sizes, selected_rows, nbytes = (
            column[rows].tolist()
            for column in (
                table.file,
                table.row_group,
                table.group_rows,
                table.selected,
                table.held_out,
                table.rows,
                table.nbytes,
            )
        )
        # In the order of the fields; one by one, with names, they take three times as long.
        splits = map(
            Split,
            [self.files[i] for i in file],
            file,
            row_group,
            *sizes,
            itertools.repeat(table.keep),
            selected_rows,
            nbytes,
            [self.partition_values[i] for i in file],
            local.tolist(),
            self.stamps_of(table.file[rows]),
        )
        for count in counts.tolist():
            yield tuple(itertools.islice(splits, count))

    def host_nbytes(self) -> dict[str, dict[int, int]]:
        """Returns the bytes of training data on each host, by groups of splits that lie on the same hosts."""
        table = self.tables.get(Stream.TRAIN)
        if table is None:
            return {}
        sets, group = distinct(np.sort(table.replicas.host, axis=1))
        sums = np.zeros(len(sets), np.int64)
        np.add.at(sums, group, table.nbytes)
        held: dict[str, dict[int, int]] = {}
        for number, (hosts, nbytes) in enumerate(zip(sets.tolist(), sums.tolist(), strict=True)):
            for host in hosts:
                if host != NO_HOST:
                    held.setdefault(self.hosts[host], {})[number] = nbytes
        return held

    def host_number(self, host: str) -> int:
        """Returns the number of a host among `hosts`, `NO_HOST` if it holds nothing.

        A node and HDFS may call the same host "n1" and "n1.example.org"; the short name counts if only one has it.
        """
        return self._host_numbers.get(host.lower(), self._host_numbers.get(host.lower().partition(".")[0], NO_HOST))

    @cached_property
    def _host_numbers(self) -> dict[str, int]:
        names = [name.lower() for name in self.hosts]
        short = Counter(name.partition(".")[0] for name in names)
        numbers = {name.partition(".")[0]: i for i, name in enumerate(names) if short[name.partition(".")[0]] == 1}
        return numbers | {name: i for i, name in enumerate(names)}

    def stamps_of(self, files: Integers) -> Iterable[FileStamp | None]:
        """Returns the stamps that identify some files, None where the plan has none."""
        if self.stamps is None:
            return itertools.repeat(None)
        return map(FileStamp, *self.stamps[files].T.tolist())


class Assignments(Sequence[Assignment]):
    """The reads of each node from one stream in one epoch. Thread-safe: each is made anew whenever it is asked for.

    Attributes:
        hosts: The number of each node's host.
        shares: The slices dealt to each node.
    """

    def __init__(self, plan: Plan, stream: Stream, epoch: int, hosts: Sequence[int], shares: DealtSlices) -> None:
        self._plan = plan
        self._stream = stream
        self._epoch = epoch
        self.hosts = hosts
        self.shares = shares

    def __len__(self) -> int:
        return len(self.shares)

    @overload
    def __getitem__(self, node: int) -> Assignment: ...
    @overload
    def __getitem__(self, node: slice) -> Sequence[Assignment]: ...
    def __getitem__(self, node: int | slice) -> Assignment | Sequence[Assignment]:
        if isinstance(node, slice):
            return [self[i] for i in range(*node.indices(len(self)))]
        pieces = self._plan.pieces(self._stream, self.shares[node], self.hosts[node])
        return Assignment.model_construct(stream=self._stream, epoch=self._epoch, pieces=pieces)

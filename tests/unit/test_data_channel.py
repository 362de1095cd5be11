"""The data channel between feeders and nodes: real Flight servers on a unix socket and on loopback."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from integration.processes import wait_for
from lakes import array, id_table, plan_lake, write_lake
from pyarrow import flight

from sparktf.driver.gang.control_server import LocalControlServer
from sparktf.driver.gang.site import Handler
from sparktf.errors import RefusedError
from sparktf.executor.feeder import FeederSettings, feed
from sparktf.feature import FeedSpec
from sparktf.feed.channel.client import DataClient, Sent, data_client
from sparktf.feed.channel.server import ChannelServer, SplitServer
from sparktf.feed.channel.staged_parts import StagedParts
from sparktf.feed.channel.staged_rows import Budget
from sparktf.feed.channel.staging import Staging
from sparktf.feed.pipeline import NodeFeed
from sparktf.knobs import KNOBS
from sparktf.sequence import Stream
from sparktf.wire.certificates import new_tls_material
from sparktf.wire.control import Action
from sparktf.wire.data import DataAddress, Lease, LeaseRequest, Span
from sparktf.wire.security import ControlAccess, TlsMaterial, new_secret

ATTEMPT = 3
SECRET = new_secret()
MEMORY = 1 << 20
REPO = Path(__file__).parents[2]


@dataclass
class Node:
    """A node that takes rows.

    Attributes:
        sealed: What it has told the driver: split and rows.
        refusal: What the driver answers.
        on_its_way: What it tells first reaches the driver once this is set.
    """

    staging: Staging
    budget: Budget
    address: DataAddress
    access: ControlAccess
    spec: FeedSpec
    sealed: list[tuple[int, int]]
    folder: Path
    refusal: RefusedError | None = None
    on_its_way: threading.Event | None = None

    @property
    def gone(self) -> DataAddress:
        """Its address, where it was on one machine with all others and has ended."""
        return self.address.model_copy(update={"socket": str(self.folder / "gone" / "data"), "location": ""})

    @property
    def elsewhere(self) -> DataAddress:
        """Its address as another host sees it."""
        return self.address.model_copy(update={"host": "another-host"})

    def ids(self) -> list[int]:
        """Trains on all that waits; returns the ids."""
        with NodeFeed(self.spec, StagedParts(self.staging, lambda: False)) as feed:
            return [int(i) for i in array(feed.next_rows(1 << 20), "input:id")]

    def is_empty(self) -> bool:
        """Whether nothing is held, in memory or in a file."""
        free = self.budget.reserve(MEMORY)
        if free:
            self.budget.give(MEMORY)
        return free and not list(self.folder.glob("*.arrow"))


@pytest.fixture
def spec(tmp_path: Path) -> FeedSpec:
    return plan_lake(write_lake(tmp_path / "lake", [3])).spec


def serve(spec: FeedSpec, folder: Path, tls: TlsMaterial | None = None) -> Node:
    folder.mkdir()
    budget = Budget(MEMORY)
    staging = Staging(spec, Stream.TRAIN, block_rows=40, budget=budget, room=MEMORY, folder=folder)
    staging.begin(0, (), keep=False, again=False)
    sealed: list[tuple[int, int]] = []

    def told(span: Span, rows: int) -> None:
        if made.refusal is not None:
            raise made.refusal
        arrives, made.on_its_way = made.on_its_way, None
        assert arrives is None or arrives.wait(10)
        sealed.append((span.split, rows))

    server = ChannelServer(
        "127.0.0.1", 0, folder, SECRET, tls, partial(SplitServer, ATTEMPT, {Stream.TRAIN: staging}, told)
    )
    access = ControlAccess(location="", secret=SECRET, tls=tls)
    made = Node(staging, budget, server.address, access, spec, sealed, folder)
    return made


@pytest.fixture
def node(spec: FeedSpec, tmp_path: Path) -> Node:
    return serve(spec, tmp_path / "node")


def span(split: int = 0, *, attempt: int = ATTEMPT, epoch: int = 0) -> Span:
    return Span(attempt=attempt, stream=Stream.TRAIN, epoch=epoch, split=split)


def rows(first: int, count: int) -> Iterator[pa.RecordBatch]:
    return iter(id_table(first, count).to_batches(max_chunksize=16))


def put(node: Node, split: int, batches: Iterator[pa.RecordBatch], address: DataAddress | None = None) -> Sent:
    with data_client(address or node.address, node.access) as client:
        return client.put(span(split), batches)


class TestPutting:
    def test_on_its_own_host_rows_go_over_the_unix_socket(self, node: Node) -> None:
        sent = put(node, 2, rows(0, 100))
        assert (sent.rows, sent.wire) == (100, "unix")
        assert sent.nbytes == node.staging.input.nbytes == node.staging.input.local_nbytes > 0
        assert node.sealed == [(2, 100)]
        assert sorted(node.ids()) == list(range(100))

    def test_from_another_host_over_tcp(self, node: Node) -> None:
        sent = put(node, 2, rows(0, 100), node.elsewhere)
        assert (sent.rows, sent.wire) == (100, "tcp")
        assert node.staging.input.rows == {"tcp": 100}
        assert node.staging.input.local_nbytes == 0
        assert sorted(node.ids()) == list(range(100))

    def test_over_tcp_with_certificates(self, spec: FeedSpec, tmp_path: Path) -> None:
        tls = new_tls_material(datetime.datetime.now(datetime.UTC))
        node = serve(spec, tmp_path / "node", tls)
        assert put(node, 0, rows(0, 50)).wire == "unix"
        assert put(node, 1, rows(50, 50), node.elsewhere).wire == "tcp"
        assert sorted(node.ids()) == list(range(100))
        node.access = node.access.model_copy(update={"tls": new_tls_material(datetime.datetime.now(datetime.UTC))})
        with pytest.raises(flight.FlightError):
            put(node, 2, rows(0, 50), node.elsewhere)
        assert len(node.sealed) == 2

    def test_a_socket_in_a_folder_with_a_long_name_serves_too(self, spec: FeedSpec, tmp_path: Path) -> None:
        node = serve(spec, tmp_path / ("n" * 200))
        assert put(node, 0, rows(0, 10)).wire == "unix"

    def test_a_partition_without_rows_is_sealed(self, node: Node) -> None:
        put(node, 0, iter([]))
        empty = id_table(0, 1).to_batches()[0].slice(0, 0)
        put(node, 1, iter([empty]))
        assert node.sealed == [(0, 0), (1, 0)]
        assert node.ids() == []

    def test_what_the_node_has_already_is_not_computed(self, node: Node) -> None:
        put(node, 0, rows(0, 10))

        def computed() -> Iterator[pa.RecordBatch]:
            raise AssertionError("the partition was computed")
            yield

        assert put(node, 0, computed()) == Sent(0, 0, "")
        assert node.sealed == [(0, 10), (0, 10)], "the first feeder may have died before the driver knew"

    def test_of_two_feeders_of_a_partition_one_counts(self, node: Node) -> None:
        both = threading.Barrier(2, timeout=10)

        def slowly() -> Iterator[pa.RecordBatch]:
            both.wait()
            yield from rows(0, 30)

        node.on_its_way = arrives = threading.Event()
        with ThreadPoolExecutor(2) as pool:
            feeders = [pool.submit(put, node, 0, slowly()) for _ in range(2)]
            try:
                assert wait(feeders, 10, FIRST_COMPLETED).done
                assert node.sealed == [(0, 30)], "Spark is done once one has ended: the driver has to know by then"
            finally:
                arrives.set()
        assert [feeder.result().rows for feeder in feeders] == [30, 30]
        assert node.sealed == [(0, 30), (0, 30)]
        assert sorted(node.ids()) == list(range(30))
        assert node.is_empty()


class TestBreakingOff:
    def test_a_feeder_that_fails_midway_seals_nothing_and_the_next_one_does(self, node: Node) -> None:
        def failing() -> Iterator[pa.RecordBatch]:
            yield from rows(0, 100)
            raise RuntimeError("the query failed")

        with pytest.raises((RuntimeError, flight.FlightError)):
            put(node, 0, failing())
        assert node.sealed == []
        assert node.is_empty()
        put(node, 0, rows(0, 120))
        assert sorted(node.ids()) == list(range(120))

    @pytest.mark.parametrize("wire", ["unix", "tcp"])
    def test_a_feeder_that_is_killed_midway_seals_nothing(self, node: Node, wire: str) -> None:
        address = node.address if wire == "unix" else node.elsewhere
        settings = [address.model_dump_json(), node.access.model_dump_json(), span().model_dump_json()]
        feeder = subprocess.Popen(
            [sys.executable, "-c", _DYING_FEEDER, *settings],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": f"{REPO}:{REPO / 'tests'}"},
        )
        assert feeder.stdout is not None
        with feeder:
            assert feeder.stdout.readline() == b"midway\n"
            feeder.kill()
        put(node, 0, rows(0, 120))
        assert node.sealed == [(0, 120)]
        assert sorted(node.ids()) == list(range(120))
        wait_for("nothing is left of the first", node.is_empty, within_s=10)

    def test_rows_that_do_not_fit_on_the_disk_seal_nothing(self, node: Node) -> None:
        taken = MEMORY - id_table(0, 16).nbytes
        assert node.budget.reserve(taken)
        (node.folder / "train-1.arrow").symlink_to("/dev/full")
        with pytest.raises(flight.FlightError, match="No space left"):
            put(node, 0, rows(0, 50))
        node.budget.give(taken)
        assert node.sealed == []
        assert node.is_empty()

    def test_a_feeder_is_told_what_the_driver_refuses(self, node: Node) -> None:
        node.refusal = RefusedError("partition 0 has other rows than before")
        with pytest.raises(flight.FlightUnauthorizedError, match="other rows than before"):
            put(node, 0, rows(0, 50))
        assert node.is_empty(), "what the driver does not know must not be trained"
        assert node.ids() == []


_DYING_FEEDER = """
import sys, time
from lakes import id_table
from sparktf.wire.data import DataAddress, Span
from sparktf.feed.channel.client import data_client
from sparktf.wire.security import ControlAccess

def batches():
    yield from id_table(0, 100).to_batches(max_chunksize=16)
    print("midway", flush=True)
    time.sleep(600)

address, access, span = sys.argv[1:]
with data_client(DataAddress.model_validate_json(address), ControlAccess.model_validate_json(access)) as client:
    client.put(Span.model_validate_json(span), batches())
"""


class TestStrangers:
    @pytest.mark.parametrize("wire", ["unix", "tcp"])
    def test_without_the_secret_nothing_is_taken_or_given(self, node: Node, wire: str) -> None:
        put(node, 0, rows(0, 10))
        node.access = node.access.model_copy(update={"secret": "wrong"})
        address = node.address if wire == "unix" else node.elsewhere
        with pytest.raises(flight.FlightUnauthenticatedError, match="secret"):
            put(node, 1, rows(0, 10), address)
        with data_client(address, node.access) as client, pytest.raises(flight.FlightUnauthenticatedError):
            client.fetch_block(span(), node.staging)
        assert sorted(node.ids()) == list(range(10))

    def test_feeders_of_another_attempt_are_refused(self, node: Node) -> None:
        with data_client(node.address, node.access) as client:
            with pytest.raises(flight.FlightUnauthorizedError, match="attempt 2 is over"):
                client.put(span(attempt=2), rows(0, 10))
            with pytest.raises(flight.FlightUnauthorizedError, match="attempt 2 is over"):
                client.fetch_block(span(attempt=2), node.staging)
        assert node.sealed == []

    def test_feeders_of_an_epoch_that_is_over_are_refused(self, node: Node) -> None:
        node.staging.begin(1, (), keep=False, again=False)
        with pytest.raises(flight.FlightUnauthorizedError, match="epoch 0 of train is over"):
            put(node, 0, rows(0, 10))

    def test_a_malformed_call_is_refused(self, node: Node) -> None:
        with data_client(node.address, node.access) as client:
            raw: DataClient = client
            with pytest.raises(flight.FlightUnauthorizedError, match="malformed call"):
                raw._client.do_get(flight.Ticket(b"{}"), raw._options)


class TestTaking:
    @pytest.mark.parametrize("wire", ["unix", "tcp"])
    def test_rows_move_to_a_node_that_has_run_dry(self, spec: FeedSpec, tmp_path: Path, wire: str) -> None:
        giver, taker = serve(spec, tmp_path / "giver"), serve(spec, tmp_path / "taker")
        put(giver, 0, rows(0, 100))
        address = giver.address if wire == "unix" else giver.elsewhere
        with data_client(address, giver.access) as client:
            while client.fetch_block(span(), taker.staging):
                pass
        theirs = taker.ids()
        assert 0 < len(theirs) < 100
        assert taker.staging.input.rows == {"peer": len(theirs)}
        assert sorted(giver.ids() + theirs) == list(range(100))
        assert giver.is_empty()
        assert taker.is_empty()

    def test_a_node_without_rows_gives_none(self, spec: FeedSpec, tmp_path: Path) -> None:
        giver, taker = serve(spec, tmp_path / "giver"), serve(spec, tmp_path / "taker")
        with data_client(giver.address, giver.access) as client:
            assert not client.fetch_block(span(), taker.staging)

    def test_text_moves_with_its_rows(self, tmp_path: Path) -> None:
        table = id_table(0, 100).append_column("s", pa.array([f"row {i}" for i in range(100)]))
        plan = plan_lake(write_lake(tmp_path / "lake", [3]), inputs={"id": "id", "label": "label"})
        giver, taker = serve(plan.spec, tmp_path / "giver"), serve(plan.spec, tmp_path / "taker")
        put(giver, 0, iter(table.to_batches(max_chunksize=16)))
        with data_client(giver.address, giver.access) as client:
            assert client.fetch_block(span(), taker.staging)
        found = taker.staging.next(0.0)
        assert found is not None
        batches = found.held.read(found.first_row, found.rows)
        moved = pa.Table.from_batches(batches)
        assert moved["s"].to_pylist() == [f"row {i}" for i in moved["id"].to_pylist()]


class TestFeeders:
    """What a feeder does on the driver's word."""

    @pytest.fixture
    def feed_to(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Sent]]:
        monkeypatch.setattr(KNOBS, "staged_poll_s", 0.001)
        servers = []

        def feed_to(*leases: Lease, turn: int = 0) -> Sent:
            left = list(leases)
            server = LocalControlServer(None, SECRET, {Action.LEASE: Handler(LeaseRequest, lambda asked: left.pop(0))})
            servers.append(server)
            settings = FeederSettings(server.access(), ATTEMPT, Stream.TRAIN, 0, 10.0, turn)
            sent = feed(0, rows(0, 30), settings)
            assert not left
            return sent

        yield feed_to
        for server in servers:
            server.shutdown()
            server.withdraw()

    def test_it_asks_again_while_nobody_takes_rows_and_where_a_node_is_lost(
        self, node: Node, feed_to: Callable[..., Sent]
    ) -> None:
        gone = node.address.model_copy(update={"host": "another-host", "location": "grpc://127.0.0.1:1"})
        assert feed_to(Lease(), Lease(data=gone), Lease(data=node.gone), Lease(data=node.address)).rows == 30
        assert sorted(node.ids()) == list(range(30))

    def test_it_computes_nothing_of_what_nobody_lacks(self, feed_to: Callable[..., Sent]) -> None:
        assert feed_to(Lease(sealed=True)) == Sent(0, 0, "")

    def test_what_comes_again_is_trained_but_for_what_is_trained_already(
        self, node: Node, feed_to: Callable[..., Sent]
    ) -> None:
        put(node, 0, rows(0, 30))
        assert len(node.ids()) == 30
        assert feed_to(Lease(data=node.address, done=((0, 20),)), turn=1).rows == 30
        assert len(node.ids()) == 10
        assert node.sealed == [(0, 30), (0, 30)]
        assert node.is_empty()

"""What the trainers of a gang are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lakes import lake_config
from specs import trainer_spec

from sparktf.driver.gang.placement import HostNbytes
from sparktf.driver.gang.roster import AgentRecord
from sparktf.driver.gang.seating import Seating, seat_agents
from sparktf.sequence import Cursor
from sparktf.storage.local import LocalStorage
from sparktf.topology import GangShape, NodeId, Role
from sparktf.wire.control import Registration
from sparktf.wire.restore import Restore


def agents_on(*hosts: str, processors: int = 0) -> list[AgentRecord]:
    usual: dict[str, Any] = {"jvm": "1", "versions": {}, "processors": processors}
    return [
        AgentRecord(
            Registration(agent=f"a{i}", partition=i, host=host, address=f"{host}:{i}", **usual), 0.0, f"{host}:{i}"
        )
        for i, host in enumerate(hosts)
    ]


def seated(shape: GangShape, hosts: str, lies: HostNbytes) -> tuple[Seating, dict[str, bytes]]:
    written: dict[str, bytes] = {}
    seating = seat_agents(
        agents_on(*hosts), shape, lies, LocalStorage(), "plan", written.__setitem__, first=True, replay=False
    )
    return seating, written


TWO_AND_ONE = GangShape.with_servers(workers=2, ps=1, least=1)


@pytest.mark.parametrize(
    ("hosts", "shape", "lies", "taken"),
    [
        ("abcd", TWO_AND_ONE, {"b": {0: 9, 1: 9}, "d": {0: 9, 2: 1}}, "c a bd"),
        ("abcd", TWO_AND_ONE, {}, "d c ab"),
        ("aabb", TWO_AND_ONE, {"b": {0: 9}}, "b a ab"),
        ("aaaa", TWO_AND_ONE, {"x": {0: 9}}, "a a aa"),
        (
            "aabbcc",
            GangShape.with_servers(workers=3, ps=2, least=1),
            {"a": {0: 9}, "b": {1: 9}, "c": {2: 1}},
            "c ab abc",
        ),
        ("bac", GangShape.with_servers(workers=2, ps=1, least=1), {"a": {0: 9}}, "c b a"),
        ("abc", GangShape.of_workers(3, least=1), {"c": {0: 9}}, "abc"),
        ("aab", GangShape.of_workers(2, least=1).with_evaluator(), {"a": {0: 9}}, "ab a"),
        ("bca", GangShape.of_workers(2, least=1).with_evaluator(), {"a": {0: 9}, "b": {1: 9}}, "ba c"),
        ("aabbc", TWO_AND_ONE.with_evaluator(), {"a": {0: 9}, "b": {1: 9}}, "b c ab a"),
        ("abcde", TWO_AND_ONE.with_evaluator(), {"a": {0: 9}, "e": {1: 9}}, "d b ae c"),
    ],
    ids=[
        "beside the data",
        "no data known",
        "two a host",
        "one host",
        "two ps apart",
        "a worker less",
        "workers alone",
        "an evaluator on a host that is used",
        "an evaluator apart",
        "an evaluator where no server is",
        "all apart",
    ],
)
def test_workers_sit_beside_the_data_and_servers_apart_from_them(
    hosts: str, shape: GangShape, lies: HostNbytes, taken: str
) -> None:
    seating, _ = seated(shape, hosts, lies)
    by_role: dict[Role, str] = {}
    for node, host in zip(seating.members, seating.hosts, strict=True):
        by_role[node.role] = by_role.get(node.role, "") + host
    assert " ".join(by_role.values()) == taken
    assert len({agent.id for agent in seating.agents}) == len(hosts)


def test_the_plan_keeps_where_the_workers_are() -> None:
    seating, written = seated(TWO_AND_ONE, "abcd", {"b": {0: 9, 1: 9}, "d": {0: 9, 2: 1}})
    assert seating.workers == ("b", "d")
    assert seating.dealt == seating.hosts == ("c", "a", "b", "d")
    assert written == {"plan/nodes.json": b'["b", "d"]'}
    assert seating.in_words(trainer_spec()) == "2 workers, 1 ps and a coordinator on b, d, a, c"
    assert str(seating.cluster.leader) == "chief 0"
    assert (seating.cluster.chief, seating.cluster.ps) == (("c:2",), ("a:0",))
    assert seating.cluster.worker == ("b:1", "d:3")


def test_an_evaluator_is_in_nobodys_cluster_and_no_part_of_what_a_replay_deals(tmp_path: Path) -> None:
    shape = GangShape.of_workers(2, least=1).with_evaluator()
    written: dict[str, bytes] = {}
    first = seat_agents(agents_on(*"abc"), shape, {}, LocalStorage(), "", written.__setitem__, first=True, replay=False)
    assert first.in_words(trainer_spec()) == "2 workers and an evaluator on a, b, c"
    assert (first.cluster.worker, first.cluster.chief, first.cluster.ps) == (("a:0", "b:1"), (), ())
    assert str(first.cluster.leader) == "worker 0"
    (tmp_path / "nodes.json").write_bytes(written["/nodes.json"])
    again = seat_agents(
        agents_on(*"bda"), shape, {}, LocalStorage(), str(tmp_path), written.__setitem__, first=True, replay=True
    )
    assert (again.workers, again.dealt) == (("d", "b"), ("a", "b", "a"))


def test_a_node_of_a_large_gang_learns_how_far_the_epoch_is_and_not_where_each_node_was() -> None:
    members = tuple(NodeId(role=Role.WORKER, index=i) for i in range(2))
    agents = tuple(agents_on("h", "h"))
    seating = Seating(members, agents, dealt=("h", "h"))
    cursor = Cursor(epoch=3, done=tuple((10 * i, 10 * i + 4) for i in range(100_000)))
    leader = trainer_spec(
        attempt=2,
        node=members[0],
        cluster=seating.cluster,
        restore=Restore(path="/o/c", step=7, cursor=cursor, rows_trained=400_000, files=("weights",)),
    )
    specs = dict(seating.specs(leader))
    assert [spec.node for spec in specs.values()] == list(members)
    for spec in specs.values():
        assert spec.restore is not None
        assert (spec.restore.cursor.epoch, spec.restore.cursor.rows, spec.restore.step) == (3, 400_000, 7)
        assert len(spec.model_dump_json()) < 10_000


THREE_AND_TWO = GangShape.with_servers(workers=3, ps=2, least=1).with_evaluator()


@pytest.mark.parametrize(
    ("processors", "asked", "hosts", "shape", "threads", "told"),
    [
        (2, None, "aa", GangShape.of_workers(2, least=1), [1, 1], "2 workers on a, a, 1 thread a worker"),
        (16, None, "aaab", GangShape.of_workers(4, least=1), [6, 6, 6, None], "on a, a, a, b, 6 threads a worker"),
        (1, None, "aaa", GangShape.of_workers(3, least=1), [1, 1, 1], "1 thread a worker"),
        (8, None, "abc", GangShape.of_workers(3, least=1), [None, None, None], "on a, b, c"),
        (8, 3, "aab", GangShape.of_workers(3, least=1), [3, 3, 3], "3 threads a worker"),
        (0, 3, "aa", GangShape.of_workers(2, least=1), [None, None], "on a, a"),
        (8, None, "aaaaaaa", THREE_AND_TWO, [None] * 7, "on a, a, a, a, a, a, a"),
        (9, None, "aaa", GangShape.of_workers(2, least=1).with_evaluator(), [5, 5, None], "5 threads a worker"),
        (8, 5, "aaaaaaa", THREE_AND_TWO, [None, None, None, 5, 5, 5, None], "5 threads a worker"),
    ],
    ids=[
        "one each",
        "a host for one",
        "fewer processors than workers",
        "a host each",
        "as the configuration says",
        "as the environment says",
        "updates of their own",
        "an evaluator computes by turns",
        "updates of their own, as the configuration says",
    ],
)
def test_the_workers_of_a_host_divide_its_processors(
    processors: int, asked: int | None, hosts: str, shape: GangShape, threads: list[int | None], told: str
) -> None:
    agents = agents_on(*hosts, processors=processors)
    seating = seat_agents(agents, shape, {}, LocalStorage(), "plan", lambda *_: None, first=True, replay=False)
    usual = lake_config()
    strategy = "parameter_server" if shape.wanted.get(Role.PS) else "multi_worker_mirrored"
    cluster = usual.cluster.model_copy(update={"threads": asked, "strategy": strategy})
    config = usual.model_copy(update={"cluster": cluster})
    leader = trainer_spec(node=seating.cluster.leader, config=config)
    assert [spec.threads for _, spec in seating.specs(leader)] == threads
    assert seating.in_words(leader).endswith(told)

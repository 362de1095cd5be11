"""Which slots will do for feeders beside the nodes."""

from __future__ import annotations

import pytest

from sparktf.config.nodes import ClusterConfig
from sparktf.driver.spark.application import check_slots, check_speculation
from sparktf.driver.spark.masters import Slots, master_of
from sparktf.errors import PreflightError


def test_speculation_is_refused_where_a_second_agent_would_fit_into_a_feeders_slot() -> None:
    with pytest.raises(PreflightError, match=r"set spark\.executor\.cores=3 or more .* or spark\.speculation=false"):
        check_speculation(master_of("yarn").slots(2), speculation=True)


@pytest.mark.parametrize(
    ("master", "cores", "speculation"),
    [("yarn", 3, True), ("yarn", 2, False), ("local-cluster[2,2,1024]", 2, True)],
    ids=["a copy does not fit", "no copies", "a copy would be on the same host, where Spark makes none"],
)
def test_else_it_is_not(master: str, cores: int, speculation: bool) -> None:
    check_speculation(master_of(master).slots(cores), speculation=speculation)


LOCAL = master_of("local[4]").slots(1)
PSEUDO = master_of("local-cluster[2,1,1024]").slots(9)
YARN = master_of("yarn").slots(1)


@pytest.mark.parametrize(
    ("slots", "nodes", "feeders", "says"),
    [
        (LOCAL, 5, True, r"5 nodes .* and one more for Spark to feed them, .* use --master 'local\[6\]';"),
        (LOCAL, 4, True, r"4 nodes .* local\[4\] has 4: use --master 'local\[5\]';"),
        (LOCAL, 5, False, r"5 nodes need as many slots, but local\[4\] has 4: use --master 'local\[5\]';"),
        (LOCAL, 5, None, r"use --master 'local\[5\]', or 'local\[6\]' if Spark feeds the nodes"),
        (PSEUDO, 3, True, r"use --master 'local-cluster\[3,2,\.\.\.\]'"),
        (PSEUDO, 3, None, r"use --master 'local-cluster\[3,1,\.\.\.\]'"),
        (PSEUDO, 2, True, r"set spark\.executor\.cores=2 or more"),
        (YARN, 9, True, r"set spark\.executor\.cores=2 or more"),
    ],
)
def test_too_few_slots_are_told_with_all_that_are_needed(
    slots: Slots, nodes: int, feeders: bool | None, says: str
) -> None:
    with pytest.raises(PreflightError, match=says):
        check_slots(slots, ClusterConfig(workers=nodes), feeders=feeders)


def test_too_few_slots_for_all_roles_are_told_with_each_of_them() -> None:
    cluster = ClusterConfig(strategy="parameter_server", workers=2, ps=2)
    with pytest.raises(
        PreflightError,
        match=r"^cluster\.workers: 2, cluster\.ps: 2 and a coordinator: 5 nodes need as many slots, but "
        r"local\[4\] has 4: use --master 'local\[5\]'; or lower cluster\.workers or cluster\.ps$",
    ):
        check_slots(LOCAL, cluster, feeders=False)
    four = ClusterConfig(strategy="parameter_server", workers=2, ps=1)
    check_slots(LOCAL, four)
    with pytest.raises(PreflightError, match=r"one more for Spark to feed them, .* use --master 'local\[5\]'"):
        check_slots(LOCAL, four, feeders=True)


@pytest.mark.parametrize(
    ("cluster", "named", "lower"),
    [
        (
            ClusterConfig(workers=4, evaluator=True),
            "cluster.workers: 4 and cluster.evaluator: 5 nodes",
            "cluster.workers or cluster.evaluator",
        ),
        (
            ClusterConfig(strategy="parameter_server", workers=2, ps=1, evaluator=True),
            "cluster.workers: 2, cluster.ps: 1, a coordinator and cluster.evaluator: 5 nodes",
            "cluster.workers, cluster.ps or cluster.evaluator",
        ),
    ],
)
@pytest.mark.parametrize("feeders", [None, False])
def test_an_evaluator_takes_a_slot_too(feeders: bool | None, cluster: ClusterConfig, named: str, lower: str) -> None:
    with pytest.raises(PreflightError) as refused:
        check_slots(LOCAL, cluster, feeders=feeders)
    assert str(refused.value) == (
        f"{named} need as many slots, but local[4] has 4: use --master 'local[5]'; or lower {lower}"
    )
    check_slots(master_of("local[5]").slots(1), cluster, feeders=feeders)


@pytest.mark.parametrize(
    ("slots", "nodes", "feeders"),
    [(LOCAL, 4, None), (LOCAL, 4, False), (LOCAL, 3, True), (PSEUDO, 2, None), (YARN, 9, None)],
)
def test_enough_slots_are_let_through(slots: Slots, nodes: int, feeders: bool | None) -> None:
    check_slots(slots, ClusterConfig(workers=nodes), feeders=feeders)

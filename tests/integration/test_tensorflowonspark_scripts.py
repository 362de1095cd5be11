"""Scripts in TensorFlowOnSpark's own style, run unchanged by the real package and by sparktf in its place.

What the real package has answered is recorded (`make peers`), for it does not change any more; `make test-more` asks it
again. What it cannot do on this TensorFlow, or says otherwise, is said with each script.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from integration.peers import FED, OURS, RAISING, READ, STAGES, TWO, Answers, Process, ask_the_real_package


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    """All scripts by ours, in one session."""
    root = tmp_path_factory.mktemp("scripts")
    (root / "ours").mkdir()
    process = Process(root / "replaced", TWO, OURS, "kept", str(root / "ours"), *FED, *READ, *RAISING)
    try:
        process.wait()
        assert not process.sandbox.family.wait(within_s=20)
        assert not process.sandbox.leftovers()
        (root / "ours/side_by_side/log.json").write_text(json.dumps(process.sandbox.executor_logs()))
        yield Answers.of(root / "ours")
    finally:
        process.kill()


@pytest.fixture(scope="module", params=["recorded", pytest.param("real", marks=pytest.mark.more)])
def both(
    request: pytest.FixtureRequest, ours: Answers, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Answers, Answers]:
    """What the real package leaves, recorded or asked again, and what ours does."""
    if request.param == "recorded":
        return Answers.recorded(), ours
    return ask_the_real_package(tmp_path_factory.mktemp("real")), ours


@pytest.mark.parametrize("line", FED + READ)
def test_it_ends_well_in_both(line: str, both: tuple[Answers, Answers]) -> None:
    for runs in both:
        ended = runs.told(line, "ended.json")
        assert ended["status"] == 0, ended["said"]
        assert ended["real"] == (runs is both[0])


def test_results_of_rows_are_the_same_in_the_same_order(both: tuple[Answers, Answers]) -> None:
    theirs, ours = (runs.told("fed_squares", "squares.json") for runs in both)
    assert theirs == ours == [[i, i * i, f"é{i}"] for i in range(100)]


def test_any_rows_come_to_a_function_and_back_as_they_were(both: tuple[Answers, Answers]) -> None:
    theirs, ours = (runs.told("fed_squares", "rows.json") for runs in both)
    assert theirs == ours
    assert ours["given"] == ours["seen"] == ours["back"]


def test_the_same_rows_come_to_the_same_nodes_from_uneven_partitions(both: tuple[Answers, Answers]) -> None:
    """Of which rows each node gets how many, only ours says something: as many as the other.

    So synchronous training ends on them here; by the real package its workers wait for each other for ever, which is
    not tried.
    """
    theirs, ours = (runs.nodes("uneven_feed") for runs in both)
    came = [Counter(json.dumps(row) for node in nodes for row in node.pop("rows")) for nodes in (theirs, ours)]
    assert came[0] == came[1]
    assert set(came[0].values()) == {2}
    assert len(came[0]) == 73
    assert theirs == ours
    assert [node["who"] for node in ours] == [[0, 0, "master", 0, 2], [1, 1, "worker", 0, 2]]
    assert all(node["same"] and node["relative"] == "file://" for node in ours)
    told = [runs.told("uneven_feed", "cluster.json") for runs in both]
    assert told[0] == told[1] == {"known": [True, True], "url": None}


def test_a_feed_is_ended_by_who_has_enough(both: tuple[Answers, Answers]) -> None:
    theirs, ours = (runs.nodes("enough_rows") for runs in both)
    assert theirs == ours
    assert ours == [{"batches": [[["first", "second"], 10, 10]] * 3, "matched": True}] * 2


def test_instances_beside_each_other_are_told_the_same(both: tuple[Answers, Answers]) -> None:
    theirs, ours = (runs.nodes("side_by_side") for runs in both)
    assert theirs == ours
    assert [node["number"] for node in ours] == [[0, 0, 2], [1, 1, 2]]


def test_what_functions_print_and_log_stands_in_their_executors_logs(ours: Answers) -> None:
    """As with the real package, whose import has Python show what is logged."""
    log = ours.told("side_by_side", "log.json")
    for number in (0, 1):
        assert f"printed by node {number}\n" in log
        assert re.search(rf" INFO \(MainThread-\d+\) logged by node {number}\n", log)


def test_an_evaluator_is_there_as_long_as_its_chief(both: tuple[Answers, Answers]) -> None:
    for name in ("chief-0.json", "evaluator-0.json", "metrics.json"):
        theirs, ours = (runs.told("evaluated", name) for runs in both)
        assert theirs == ours
    assert ours == {"metric-1": "1", "metric-2": "4", "metric-3": "9"}


@pytest.mark.parametrize("when", STAGES[:-1])
def test_what_a_function_raises_fails_the_script(when: str, both: tuple[Answers, Answers]) -> None:
    """The real package's Spark must try no task again: its second try would wait until the feed's time is over."""
    for runs in both:
        ended = runs.told(RAISING[STAGES.index(when)], "ended.json")
        assert ended["status"] == 1
        assert ended["real"] == (runs is both[0])
        assert f"ValueError: no luck {when}" in ended["said"]
    assert "sparktf.errors.ModelError: ValueError: no luck" in ended["said"]
    assert "in main_fun" in ended["said"], "the function's own traceback"


def test_more_nodes_than_slots_fail_the_script_at_once(both: tuple[Answers, Answers]) -> None:
    """The real package waits as long as it may, does not say for which nodes, and those that came go on waiting."""
    ended = both[1].told(RAISING[-1], "ended.json")
    assert ended["status"] == 1
    assert (
        "PreflightError: 3 nodes need as many slots, but local-cluster[2,1,1024] has 2: use --master" in ended["said"]
    )


def test_keras_trains_the_same_on_rows_that_are_fed(both: tuple[Answers, Answers]) -> None:
    """By tf_keras: Keras 3's own `fit` fails under MultiWorkerMirroredStrategy in both."""
    theirs, ours = (runs.nodes("fed_keras") for runs in both)
    for nodes in (theirs, ours):
        assert [(node["job"], node["replicas"]) for node in nodes] == [("chief", 2), ("worker", 2)]
        assert nodes[0]["weights"] == nodes[1]["weights"]
        assert nodes[0]["weights"] == pytest.approx([2, -1, 0.5], abs=0.02)
        assert all(node["keras3"].startswith("ValueError: Attempt to convert a value (PerReplica") for node in nodes)


def test_an_estimator_and_its_model_give_the_same_columns(both: tuple[Answers, Answers]) -> None:
    """One output a call: of several, the real package puts each into any of the columns, or puts null there."""
    theirs, ours = (runs.told("estimated", "scored.json") for runs in both)
    assert theirs["params"] == ours["params"] == [True, 16, 2]
    for output, kind in (("column", "array<double>"), ("text", "binary")):
        assert theirs[output][0] == ours[output][0] == [["found", kind]]
        assert sorted(theirs[output][1]) == sorted(ours[output][1])
        assert len(ours[output][1]) == 60
    assert Counter(ours["text"][1]) == Counter(repr(str(2 * (i % 7) - i % 5).encode()) for i in range(60))


def test_keras_trains_the_same_on_files_that_workers_read(both: tuple[Answers, Answers]) -> None:
    theirs, ours = (runs.nodes("read_keras") for runs in both)
    for their, our in zip(theirs, ours, strict=True):
        assert our.pop("weights") == pytest.approx(their.pop("weights"), abs=1e-6)
        assert their == our
    assert [(node["job"], node["rank"], node["replicas"]) for node in ours] == [("chief", 0, 2), ("worker", 1, 2)]
    for runs in both:
        assert "export/saved_model.pb" in runs.files("read_keras")


def test_a_board_shows_what_a_worker_writes_until_the_cluster_ends(both: tuple[Answers, Answers]) -> None:
    """The real package's listens on the worker's own loopback alone: its URL, which names the host, leads nowhere."""
    theirs, ours = (runs.told("read_keras", "board.json") for runs in both)
    assert theirs == {"shown": True, "by_url": False, "gone": True}
    assert ours == {"shown": True, "by_url": True, "gone": True}


def test_parameter_servers_beside_the_driver_serve_until_the_others_are_done(both: tuple[Answers, Answers]) -> None:
    for name in ("ps-0.json", "chief-0.json", "worker-0.json", "total.json"):
        theirs, ours = (runs.told("served", name) for runs in both)
        assert theirs == ours
    assert ours == 20.0


@pytest.mark.more(
    "unit/test_tf_frames.py::test_rows_are_the_same_after_they_were_examples",
    "integration/test_tfrecords.py::test_what_tensorflow_writes_is_read_with_the_types_that_it_has",
    "integration/test_tfrecords.py::test_what_is_written_is_read_back_by_us_and_parsed_by_tensorflow",
)
@pytest.mark.parametrize("both", ["real"], indirect=True)
def test_records_of_either_are_read_equal_by_both(both: tuple[Answers, Answers]) -> None:
    """With the real package's own jar. Its `dfutil` writes no booleans: today's protobuf takes none for integers.

    What ours makes of them is said by the same process, and never recorded.
    """
    told = both[0].told("records", "records.json")
    assert both[0].told("records", "ended.json")["status"] == 0
    assert told["truth"] == "Field tensorflow.Int64List.value: Expected an int, got a boolean."
    expected = told["theirs by theirs"]
    assert expected["rows"] == told["given"]["rows"]
    assert [kind for _, kind in expected["types"]] == [
        *("double", "array<double>", "double", "array<double>", "bigint", "bigint", "array<bigint>", "bigint"),
        *("array<bigint>", "string", "binary"),
    ]
    assert told["ours by theirs"] == told["theirs by ours"] == told["ours by ours"] == expected
    assert told["theirs typed"] == told["given"]
    by_theirs, *others = told["examples"].values()
    assert len(by_theirs) == 3
    assert others == [by_theirs] * 3
    assert told["schemas"][0] == told["schemas"][1]
    assert [name for name in told["files"]["theirs"] if name[0] not in "._"] == ["part-r-00000", "part-r-00001"]
    assert len([name for name in told["files"]["ours"] if name[0] not in "._"]) == 2

"""What is told of an exception that ends a trainer: whose failure it is, and what to do."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from trainer import failures, lake
from trainer.local_gang import PROCESSES

from sparktf.errors import ErrorRecord, Verdict
from sparktf.wire.trainer_spec import Collectives

MODEL, GANG = Verdict.MODEL_FAILED, Verdict.INFRASTRUCTURE
LOCAL = "spark.local.dir"

# What fails, on how many nodes -> verdict, only a peer's loss, what the message must say.
CASES = [
    ("own CancelledError", 2, MODEL, False, "CancelledError: my own word"),
    ("own AbortedError", 2, MODEL, False, "AbortedError: my own word"),
    ("own DeadlineExceededError", 2, MODEL, False, "DeadlineExceededError: my own word"),
    ("own UnavailableError", 2, MODEL, False, "UnavailableError: my own word"),
    ("own ResourceExhaustedError", 1, MODEL, False, "ResourceExhaustedError: my own word"),
    ("own CancelledError while traced", 2, MODEL, False, "my own word"),
    ("own CancelledError in a py_function", 2, MODEL, False, "CancelledError: mine"),
    ("own connection in a py_function", 2, MODEL, False, "Connection reset by peer"),
    ("peers", 2, GANG, True, "worker 0 lost its peers: The following tasks are unhealthy (stopped): worker 1 at h:1"),
    ("peers, told as another error", 3, GANG, True, "lost its peers: The following tasks are unhealthy"),
    ("peers, cancelled", 2, GANG, True, "worker 0 lost its peers: RecvAsync is cancelled"),
    ("peers, cancelled", 1, MODEL, False, "CancelledError: RecvAsync is cancelled"),
    ("local disk, by TensorFlow", 1, GANG, False, LOCAL),
    ("local disk, by Python", 2, GANG, False, LOCAL),
    ("quota, by Python", 1, GANG, False, LOCAL),
    ("other disk", 1, GANG, False, "in _full_elsewhere: stream.write"),
    ("disk in a py_function", 2, GANG, False, "make room for /lake/file"),
    (
        "memory in a py_function",
        1,
        GANG,
        False,
        "out of memory: MemoryError: no more; raise cluster.trainer_memory_mib",
    ),
    ("memory, by TensorFlow", 2, GANG, False, "out of memory: OOM when allocating tensor with shape"),
    ("too many files", 1, MODEL, False, "/lake/file; Too many open files"),
]


@pytest.mark.parametrize(("what", "nodes", "verdict", "peer", "text"), CASES)
def test_a_failure_is_told_as_what_it_is(
    what: str, nodes: int, verdict: Verdict, peer: bool, text: str, tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    config = lake.job(tmp_path, "anything", data=lake.NUMBERS_TO_LABEL)
    record = elsewhere.submit(failures.told, config, what, nodes, str(tmp_path)).result()
    assert (record.verdict, record.peer) == (verdict, peer), record.message
    assert (record.type == "NotStoredError") == ("disk" in what or "quota" in what)
    assert text in record.message
    assert "disk full" not in record.message or "memory" not in record.message


def test_summaries_that_cannot_be_written_wait_for_the_next_time(
    tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    first, second = elsewhere.submit(failures.summaries_stored, tmp_path).result()
    assert first == [first[0]]
    assert first[0].startswith(f"{tmp_path}/tensorboard cannot be written: ")
    assert second == ["", "train"]


def test_a_checkpoint_that_a_full_local_disk_does_not_take_ends_no_attempt(
    tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    config = lake.job(tmp_path, "anything", data=lake.NUMBERS_TO_LABEL)
    chief, other = elsewhere.submit(failures.saved_to_full_disk, config, tmp_path).result()
    reason = (
        f"the executor's local disk is full: {tmp_path}/step-000000000001 cannot be written; make room there, or name"
    )
    assert chief[0].startswith(reason)
    assert LOCAL in chief[0]
    assert chief[1] == f"the last checkpoint could not be stored: {chief[0]}"
    assert other == ("", "")


@pytest.mark.parametrize(("collectives", "writes"), [("tensorflow", [True, True]), ("sparktf", [True, False])])
def test_a_node_writes_no_checkpoint_that_nobody_keeps_unless_its_variables_take_all_nodes_to_read(
    collectives: Collectives, writes: list[bool], tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    config = lake.job(tmp_path, "anything", data=lake.NUMBERS_TO_LABEL)
    assert elsewhere.submit(failures.who_writes, config, collectives, tmp_path).result() == writes


def test_a_thread_that_fails_ends_the_process_whose_main_thread_never_returns(tmp_path: Path) -> None:
    config = lake.job(tmp_path, "anything", data=lake.NUMBERS_TO_LABEL)
    work, told = tmp_path / "work", tmp_path / "told.json"
    work.mkdir()
    process = PROCESSES.Process(target=failures.failed_beside_a_call, args=(config, work, told))
    process.start()
    try:
        process.join(60)
        assert process.exitcode == 1
    finally:
        process.kill()
        process.join()
    record = ErrorRecord.model_validate_json(told.read_text())
    assert (record.type, record.message, record.node) == ("NodeLostError", "worker 1 is lost", "worker 0")
    assert not work.exists()

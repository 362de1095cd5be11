"""What a task and the process that scores for it say to each other, however much it is."""

from __future__ import annotations

import os
import socket

import numpy as np
import pytest

from sparktf.errors import ModelContractError, SparkTFError, StorageError
from sparktf.feed.arrays.shared import hear, tell
from sparktf.wire.scored_model import error_arrays, error_of


def test_a_message_may_have_more_arrays_than_a_packet_has_room_to_name() -> None:
    arrays = {f"a column with a name of some length, {i}": np.full(3, i) for i in range(5000)}
    before = len(os.listdir("/proc/self/fd"))
    task, scorer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with task, scorer:
        tell(task, "score", arrays)
        tell(task, "ready")
        verb, found = hear(scorer)
        assert (verb, list(found)) == ("score", list(arrays))
        assert all((found[name] == array).all() for name, array in arrays.items())
        assert hear(scorer) == ("ready", {})
        task.close()
        with pytest.raises(EOFError):
            hear(scorer)
    del found  # arrays keep the memory that they lie in
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (StorageError("the file is " + "long/" * 50_000), StorageError),
        (ModelContractError("grün"), ModelContractError),
        (type("ForeignError", (SparkTFError,), {})("of another version"), ModelContractError),
    ],
)
def test_an_error_arrives_as_it_was_however_much_it_says(told: SparkTFError, kind: type[SparkTFError]) -> None:
    task, scorer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with task, scorer:
        tell(scorer, "error", error_arrays(told))
        verb, arrays = hear(task)
    assert verb == "error"
    found = error_of(arrays)
    assert (type(found), str(found)) == (kind, str(told))

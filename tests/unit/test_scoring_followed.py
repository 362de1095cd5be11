"""Whether a process that scores is followed by that of another model, as the folder of their sockets has it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sparktf.trainer.scoring import is_followed


def listen(place: Path, began_s: int) -> Path:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(place.name))
    os.utime(place, (began_s, began_s))
    return place


def test_it_is_followed_by_a_younger_one_of_the_same_executor_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's name has to be short
    own = listen(tmp_path / "scorer-71-aa", 100)
    listen(tmp_path / "scorer-71-bb", 90)
    listen(tmp_path / "scorer-7-cc", 110)
    listen(tmp_path / "scorer-71-aa-1f2e3d4c", 110)  # somebody who looks whether there is one of this model
    (tmp_path / "scorer-71-dd-work").mkdir()
    (tmp_path / "scorer-71-dd.log").touch()
    assert not is_followed(own)
    assert is_followed(tmp_path / "scorer-71-bb")
    younger = listen(tmp_path / "scorer-71-dd", 101)
    assert is_followed(own)
    younger.unlink()
    assert not is_followed(own)
    own.unlink()
    assert not is_followed(own)

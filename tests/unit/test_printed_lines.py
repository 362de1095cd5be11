"""What the user's code prints on the leader, on its way to the driver."""

from __future__ import annotations

import contextlib
import io
import sys

import pytest

from sparktf.trainer.node.printed_lines import LENGTH, LINES, REST, Printing


def printed(*blocks: str) -> tuple[list[str], str]:
    """Returns what is told of each block, and all that is in the log."""
    told: list[str] = []
    printing = Printing(told.append)
    with contextlib.redirect_stdout(io.StringIO()) as log:
        for block in blocks:
            with printing.heard():
                print(block, end="")
    return told, log.getvalue()


def test_lines_are_told_at_the_end_of_a_block_and_stay_in_the_log() -> None:
    told, log = printed("one\ntwo\n", "", "  three")
    assert told == ["one\ntwo", "  three"]
    assert log == "one\ntwo\n  three"


def test_lines_are_told_of_a_block_that_raises() -> None:
    told: list[str] = []
    out = sys.stdout
    with pytest.raises(ValueError, match="wrong"), Printing(told.append).heard():
        print("so far")
        raise ValueError("wrong")
    assert told == ["so far"]
    assert sys.stdout is out


@pytest.mark.parametrize("line", ["x", "x" * LENGTH])
def test_so_much_is_told_and_no_more(line: str) -> None:
    told, log = printed(*[f"{line}\n"] * (2 * LINES))
    lines = "\n".join(told).splitlines()
    assert lines[-1] == REST
    assert lines.count(REST) == 1
    assert len(lines) == (LINES if line == "x" else 2)
    assert len(log.splitlines()) == 2 * LINES

"""Texts of errors without the wrapping of TensorFlow and Keras."""

from __future__ import annotations

import re

from sparktf.told import words_of_error

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_GRAPH_FRAME = re.compile(r"Detected at node |File \"|<stack traces unavailable>|\d+ root error\(s\) found")
_GRAPH_PREFIX = re.compile(r"\{\{function_node [^}]*\}\} |\(\d+\) [A-Z_]+: +")


def first_line(error: BaseException) -> str:
    """Returns the first line of the original error, without the wrapping of TensorFlow and Keras."""
    lines = [line.strip() for line in without_colours(words_of_error(error)).splitlines() if line.strip()]
    if lines and lines[0] == "in user code:":
        said = f"{type(error).__name__}: "
        lines = next((lines[i:] for i, line in enumerate(lines) if line.startswith(said)), lines)
        lines[0] = lines[0].removeprefix(said)
    if lines and lines[0] == "Graph execution error:":
        lines = [line for line in lines[1:] if not _GRAPH_FRAME.match(line)]
    if lines and lines[0].startswith("Exception encountered when calling "):
        lines = lines[1:]
    return _GRAPH_PREFIX.sub("", lines[0]) if lines else type(error).__name__


def without_colours(text: str) -> str:
    """Returns a text without terminal colours, which Keras puts into its messages."""
    return _COLOURS.sub("", text)

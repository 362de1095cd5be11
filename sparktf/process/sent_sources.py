"""Source texts that travel with a program's functions: tracebacks elsewhere show lines of cells and scripts by them."""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from types import CodeType
from typing import NamedTuple


class SentSource(NamedTuple):
    """The text of a function, behind as many empty lines as stand before it in its file, or its cell."""

    label: str  # That of the file in messages
    text: str


_LABELS: dict[str, str] = {}


def remember_sources(sources: Mapping[str, tuple[str, str]]) -> None:
    """Has tracebacks of this process show lines of these files: name -> label and text."""
    for file, (label, text) in sources.items():
        _LABELS[file] = label
        # Without a time of its own, an entry is never compared with a file.
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)


def name_code(code: CodeType, file: str) -> CodeType:
    """Returns code as of a file, whose name is one of those of `remember_sources`."""
    return code.replace(co_filename=file)


def label_of(file: str) -> str | None:
    """Returns the name for messages of the file of a function that was sent; None for another one."""
    return _LABELS.get(file)

"""A page of the docs as its reader takes it: files are written, commands typed, one after the other, in one shell."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"#.*\bexit code (\d+)")
_MARK = "@@@"
_COMMAND = ""
"""In place of a file's name."""


class Step(NamedTuple):
    """A command.

    Attributes:
        code: The exit code that the page says it has: in a comment, else 0.
        expected: Lines that the page shows of its output.
    """

    command: str
    code: int
    expected: tuple[str, ...]


class Typed(NamedTuple):
    """What a command gave."""

    step: Step
    code: int
    output: str


class Page:
    """What a page has its reader do.

    A block of `python` or `yaml` whose first line is a comment with a file's name is that file; a line of `sh` is a
    command; a block of `text` is output of the command before it, or a part of that.
    """

    def __init__(self, path: Path) -> None:
        """Reads it.

        Raises:
            AssertionError: a block is of no such language, or a file has no name.
        """
        self._parts: list[tuple[str, str]] = []
        self.steps: list[Step] = []
        for language, text in _BLOCK.findall(path.read_text(encoding="utf-8")):
            assert language in ("python", "yaml", "sh", "text"), f"a block of {language or 'no language'}: {text}"
            if language == "text":
                last = self.steps[-1]
                self.steps[-1] = last._replace(expected=(*last.expected, *text.splitlines()))
            elif language == "sh":
                for line in text.splitlines():
                    found = _CODE.search(line)
                    self._parts.append((_COMMAND, str(len(self.steps))))
                    self.steps.append(Step(line, int(found[1]) if found else 0, ()))
            else:
                first = text.splitlines()[0]
                assert re.fullmatch(r"# [\w.]+", first), f"a file without a name: {text}"
                self._parts.append((first.removeprefix("# "), text))

    @property
    def files(self) -> dict[str, str]:
        """The files that the page shows."""
        return {name: text for name, text in self._parts if name != _COMMAND}

    def type_into_a_shell(self, folder: Path, environment: Mapping[str, str]) -> list[Typed]:
        """Does all of it in a folder; returns what each command gave."""
        script = []
        for kind, text in self._parts:
            if kind == _COMMAND:
                command = self.steps[int(text)].command
                script.append(f"{command}\nprintf '\\n{_MARK} {text} %s\\n' $?")
            else:
                script.append(f"cat > {kind} <<'{_MARK}'\n{text}{_MARK}")
        done = subprocess.run(
            ["bash", "-c", "\n".join(script)],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        pieces = re.split(rf"^{_MARK} (\d+) (\d+)$", done.stdout, flags=re.MULTILINE)
        typed = [
            Typed(self.steps[int(step)], int(code), output)
            for output, step, code in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=False)
        ]
        assert len(typed) == len(self.steps), done.stdout
        return typed


def missing(typed: Typed) -> list[str]:
    """Returns the lines that the page shows, and the command has not printed: figures and widths may be others.

    Of a command that prints nothing, as its comment says, those that it has printed all the same.
    """
    if "# prints nothing" in typed.step.command:
        return typed.output.split()
    printed = {_shape(line) for line in typed.output.splitlines()}
    return [line for line in typed.step.expected if _shape(line) not in printed]


def _shape(line: str) -> str:
    figures = re.sub(r"[-+]?\d[\d,.]*", "N", line)
    return re.sub(r"([─━═])\1+", r"\1", re.sub(r"\s+", " ", figures)).strip()

"""Scripts by which shells complete the words of the console script."""

from __future__ import annotations

import argparse

import shtab

_COMPLETED = {"CONFIG": shtab.FILE, "FILE": shtab.FILE, "PATH": shtab.DIRECTORY}
"""What is completed where a word stands for a file or a folder, by its name in the help."""


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Returns the script that a shell reads: commands, options, and paths where they are asked for."""
    for command in _parsers(parser):
        command.description = (command.description or "").partition(". ")[0].rstrip(".")  # a menu has a line for each
        for action in command._actions:
            if action.metavar in _COMPLETED:
                action.complete = _COMPLETED[action.metavar]  # type: ignore[attr-defined]
    return shtab.complete(parser, shell)


def _parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += action.choices.values()
    return found

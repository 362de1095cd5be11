"""Examples in the documentation are accepted by what they are written for: configurations, commands, Python."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from source_trees import ROOT

from sparktf.commands.command_line import command_line
from sparktf.config.job import JobConfig
from sparktf.config.load import load_config

_FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^(?:\.venv/bin/)?sparktf ([^|]+?)(?: +#.*)?(?: *\|.*)?$", re.MULTILINE)

WHOLE: dict[str, Any] = {
    "name": "churn",
    "model": "churn:build",
    "data": {
        "path": "lake/customers",
        "inputs": {"age": "age"},
        "targets": {"churned": "churned"},
        "validation": {"fraction": 0.1},
    },
    "cluster": {"workers": 2},
    "train": {"epochs": 3, "batch_size": 4096},
    "output": {"path": "runs"},
}
"""What a part of a configuration stands in."""


def blocks(*languages: str) -> list[Any]:
    """Returns the blocks of all pages in some languages, as parameters of a test."""
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        for block in _FENCED.finditer(text):
            if block[2] in languages:
                line = text.count("\n", 0, block.start()) + 1
                found.append(pytest.param(textwrap.dedent(block[3]), id=f"{page.stem}-{line}"))
    return found


def within(part: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Returns a configuration with a part of it replaced; one source of data, or of validation, replaces another."""
    sections = [key for key, value in part.items() if isinstance(value, dict) and key in whole and key != "validation"]
    merged = part | {key: within(part[key], whole[key]) for key in sections}
    kept = {key: value for key, value in whole.items() if key not in merged}
    if {"table", "sql", "source"} & merged.keys():
        kept.pop("path", None)
    return kept | merged


@pytest.mark.parametrize("block", blocks("yaml"))
def test_a_configuration_is_accepted(block: str, tmp_path: Path) -> None:
    part = yaml.safe_load(block)
    part = part if part.keys() & JobConfig.model_fields.keys() else {"data": part}
    file = tmp_path / "churn.yaml"
    file.write_text(yaml.safe_dump(within(part, WHOLE)), encoding="utf-8")
    assert load_config(str(file), date="2026-11-20").name


@pytest.mark.parametrize("block", blocks("python"))
def test_python_can_be_read(block: str) -> None:
    compile(block, "example", "exec")


@pytest.mark.parametrize("block", blocks("sh", ""))
def test_a_command_has_the_arguments_that_it_is_shown_with(block: str) -> None:
    for words in _COMMAND.findall(block):
        command_line().parse(shlex.split(words))

"""docs/nights/first-night.md, from its first command to its last, in an empty home folder."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import readme
from integration.page import Page, missing
from integration.processes import MARK, Family
from integration.sandbox import QUICK_START

PAGE = Page(readme.REPO / "docs/nights/first-night.md")
USER = "/srv/ana"
"""The home folder in what the page shows."""


@pytest.fixture
def home() -> Iterator[Path]:
    # As short as a real one: tables are cut where a path is too long.
    with tempfile.TemporaryDirectory(prefix="ana-") as folder:
        sparktf = Path(folder, "sparktf")
        sparktf.mkdir()
        (sparktf / ".venv").symlink_to(sys.prefix)
        (sparktf / "yarn").symlink_to(readme.REPO / "yarn")
        yield Path(folder)


def test_the_first_night_is_as_its_page_says(home: Path) -> None:
    family = Family()
    environment = readme.bare_environment({"HOME": str(home), MARK: family.mark, "SPARK_SUBMIT_OPTS": QUICK_START})
    try:
        typed = PAGE.type_into_a_shell(home, environment)
        left = family.wait()
    finally:
        family.kill()
    shown = [one._replace(output=one.output.replace(str(home), USER).strip("\n")) for one in typed]
    print(*(f"$ {one.step.command}\n{one.output}\n" for one in shown), sep="\n")  # seen where the test fails
    for one in shown:
        assert one.code == one.step.code, one
        assert not missing(one), one
    assert not left

"""What every property has: a folder to write to, and a line that repeats what failed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzz.cases import CASES, SEED, NewFolder


@pytest.fixture(scope="session")
def new_folder(tmp_path_factory: pytest.TempPathFactory) -> NewFolder:
    """Returns a function that makes an empty folder for each case."""
    root, numbers = tmp_path_factory.mktemp("cases"), itertools.count()

    def make() -> Path:
        folder = root / str(next(numbers))
        folder.mkdir()
        return folder

    return make


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Ends the report of what failed with the command that repeats it."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed:
        name = getattr(item, "originalname", item.name)
        report.sections.append(("to repeat it", f"make fuzz SEED={SEED} CASES={CASES} ARGS='-k {name}'"))
    return report  # type: ignore[return-value]

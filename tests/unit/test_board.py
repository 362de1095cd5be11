"""What `sparktf tensorboard` copies, and which runs it means."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pytest

from sparktf.commands.cli import main
from sparktf.errors import ConfigError, StorageUnavailableError
from sparktf.runs.board import EventFiles, find_subject
from sparktf.runs.finding import RunsRoot
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.local import LocalStorage


class CountingStorage(LocalStorage):
    """Notes what is fetched.

    Attributes:
        downloads: The files that were fetched whole; `opened` those of which only a part was wanted.
        away: Whether it fails.
    """

    def __init__(self) -> None:
        self.downloads: list[str] = []
        self.opened: list[str] = []
        self.away = False

    def download(self, path: str, local: Path) -> None:
        if self.away:
            raise StorageUnavailableError("away")
        self.downloads.append(Path(path).name)
        super().download(path, local)

    def open(self, path: str) -> BinaryIO:
        self.opened.append(Path(path).name)
        return super().open(path)


class Place:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "runs"
        self.local = folder / "local"
        self.local.mkdir()
        self.storage = CountingStorage()
        self.write("churn/1/result.json", b"{}")

    def write(self, path: str, content: bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab") as file:
            file.write(content)

    def output(self, name: str | None = None) -> RunsRoot:
        return RunsRoot(self.storage, str(self.root), name)

    def files(self, what: str) -> EventFiles:
        return EventFiles(find_subject(FileSystems(), what, self.output()), self.local)

    def copied(self) -> dict[str, bytes]:
        found = (path for path in self.local.rglob("*") if path.is_file())
        return {path.relative_to(self.local).as_posix(): path.read_bytes() for path in found}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARKTF_OUTPUT", raising=False)
    return Place(tmp_path)


def test_only_what_is_new_is_fetched(place: Place) -> None:
    place.write("churn/1/tensorboard/train/events.1", b"one")
    place.write("churn/1/tensorboard/validation/events.2", b"two")
    files = place.files("churn/1")
    assert files.follow() == 6
    assert place.copied() == {"train/events.1": b"one", "validation/events.2": b"two"}
    assert files.follow() == 0
    place.write("churn/1/tensorboard/train/events.1", b" more")
    place.write("churn/1/tensorboard/train/events.3", b"three")
    assert files.follow() == 10
    assert place.copied()["train/events.1"] == b"one more"
    assert place.storage.downloads == ["events.1", "events.2", "events.3"]
    assert place.storage.opened == ["events.1"]


def test_a_run_that_has_written_nothing_yet_is_waited_for(place: Place) -> None:
    files = place.files("churn/1")
    assert files.follow() == 0
    place.write("churn/1/tensorboard/train/events.1", b"one")
    assert files.follow() == 3


def test_what_the_storage_did_not_give_is_fetched_the_next_time(place: Place) -> None:
    place.write("churn/1/tensorboard/train/events.1", b"one")
    files, place.storage.away = place.files("churn/1"), True
    with pytest.raises(StorageUnavailableError):
        files.follow()
    place.storage.away = False
    assert files.follow() == 3


def test_of_a_name_all_runs_are_shown_also_those_that_begin_later(place: Place) -> None:
    place.write("churn/2026-11-01/tensorboard/train/events.1", b"one")
    place.write("churn/serving/1/tensorboard/events.9", b"no run")
    place.write("churn/_staged-1/tensorboard/events.9", b"no run")
    files = place.files("churn")
    files.follow()
    place.write("churn/2026-11-02/tensorboard/train/events.2", b"two")
    files.follow()
    assert place.copied() == {"2026-11-01/train/events.1": b"one", "2026-11-02/train/events.2": b"two"}


def test_what_is_meant_is_a_run_before_it_is_a_name(place: Place) -> None:
    place.write("churn/clicks/result.json", b"{}")
    place.write("clicks/1/result.json", b"{}")
    place.write("lonely/1/result.json", b"{}")
    assert find_subject(FileSystems(), "clicks", place.output()).title == "clicks"
    assert find_subject(FileSystems(), "clicks", place.output("churn")).title == "churn/clicks"
    assert find_subject(FileSystems(), "lonely", place.output("churn")).title == "lonely"
    assert find_subject(FileSystems(), "clicks/1", place.output("churn")).title == "clicks/1"
    assert find_subject(FileSystems(), str(place.root / "clicks/1"), None).title == "clicks/1"
    with pytest.raises(ConfigError, match="did you mean clicks"):
        find_subject(FileSystems(), "click", place.output())


def test_the_command_says_what_it_needs(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["tensorboard", "churn/1"]) == 2
    assert "SPARKTF_OUTPUT" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["tensorboard", "churn/1", "--output", str(place.root)]) == 2
    assert "pip install tensorboard" in capsys.readouterr().err
    assert not [name for name in os.listdir(place.root.parent) if name.startswith("sparktf-tensorboard")]


def test_flags_of_tensorboards_are_for_that_command_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["runs", "--reload_interval", "1"])
    assert "unrecognized arguments: --reload_interval" in capsys.readouterr().err

"""The files of a checkpoint: an ordinary TensorFlow checkpoint, written by one process or by several."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import tensorflow as tf
from pydantic import ValidationError

from sparktf.errors import StorageError
from sparktf.message import Message
from sparktf.storage.base import Storage
from sparktf.trainer.model.said import first_line
from sparktf.trainer.node.objects import OBJECT_GRAPH, entries_of, stored_keys
from sparktf.wire.restore import Restore
from sparktf.wire.uploads import Uploaded

PREFIX = "ckpt"
INDEX = f"{PREFIX}.index"

CONTENTS = "contents.json"
"""Lists the tensors of each data file: TensorFlow's index has that too, but no API to read it."""


class Contents(Message):
    """The tensors in each data file, so that a reader fetches only the files it needs."""

    files: dict[str, tuple[str, ...]]

    def files_with(self, keys: Iterable[str]) -> set[str]:
        """Returns the data files with any of these tensors."""
        wanted = set(keys)
        return {name for name, held in self.files.items() if not wanted.isdisjoint(held)}


class Checkpoint(Protocol):
    """A node's state as files, some of which other nodes may write on their own disks."""

    def write(self, folder: Path) -> tuple[str, ...]:
        """Writes the current state; `folder` is for this node's files, and does not exist yet.

        Returns:
            Names of the files that other nodes have written.

        Raises:
            StorageError: it cannot be written now, which does not end the training.
        """

    def upload(self, message: Uploaded) -> None:
        """Starts the other nodes' uploads; `message` is this node's report about its own files."""

    def settle(self) -> str:
        """Waits for these uploads; returns the error of one, "" for none."""

    def restore(self, storage: Storage, source: Restore, work: Path) -> None:
        """Reads a committed checkpoint into the objects, which all exist; `work` is a local folder.

        Raises:
            StorageError: it cannot be downloaded.
            AssertionError: it lacks a variable of the model.
            ValueError: a variable has another shape there.
        """


class LocalCheckpoint:
    """A checkpoint that this process alone writes: see `Checkpoint`."""

    def __init__(self, **trackables: Any) -> None:
        """Takes the objects to save, by name."""
        self._objects = tf.train.Checkpoint(**trackables)

    def write(self, folder: Path) -> tuple[str, ...]:
        self._objects.write(str(folder / PREFIX))
        return ()

    def upload(self, message: Uploaded) -> None:
        """See `Checkpoint`."""

    def settle(self) -> str:
        return ""

    def restore(self, storage: Storage, source: Restore, work: Path) -> None:
        self.restore_files(storage, source.path, source.files, work / "restore")

    def restore_files(self, storage: Storage, path: str, files: Sequence[str], folder: Path) -> None:
        """Reads a committed checkpoint of these files by way of a temporary `folder`; see `restore`."""
        try:
            with undamaged(path):
                fetch_for(self._objects, storage, path, files, folder)
                self.read(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def read(self, folder: Path) -> None:
        """Reads the files of a local folder.

        Raises:
            AssertionError: the model's variables are not those of the checkpoint.
        """
        self._objects.read(str(folder / PREFIX)).assert_existing_objects_matched()


@contextmanager
def undamaged(path: str) -> Iterator[None]:
    """Raises `StorageError` for what TensorFlow says of a checkpoint with a damaged file: no code is wrong."""
    try:
        yield
    except (ValidationError, tf.errors.OpError) as error:
        if isinstance(error, tf.errors.ResourceExhaustedError):  # of the devices that it is read into
            raise
        raise StorageError(f"cannot restore {path}, a file of it may be damaged: {first_line(error)}") from error


def download(storage: Storage, path: str, files: Iterable[str], folder: Path) -> None:
    """Downloads files of a committed checkpoint into a local folder.

    Raises:
        StorageError: one cannot be downloaded.
    """
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        storage.download(f"{path}/{name}", folder / name)


def fetch_for(root: Any, storage: Storage, path: str, files: Sequence[str], folder: Path) -> None:
    """Downloads the files of a committed checkpoint that are needed to restore a trackable.

    Raises:
        StorageError: it cannot be downloaded.
    """
    contents = fetch_index(storage, path, files, folder)
    if contents is None:
        return
    keys = stored_keys(entries_of(root)[0], root, folder / PREFIX).values()
    download(storage, path, sorted(contents.files_with(keys) - contents.files_with([OBJECT_GRAPH])), folder)


def fetch_index(storage: Storage, path: str, files: Sequence[str], folder: Path) -> Contents | None:
    """Downloads the index of a committed checkpoint, or all of it if it has no `CONTENTS`.

    Returns:
        The contents of each file; None if all files were downloaded.

    Raises:
        StorageError: it cannot be downloaded.
    """
    if CONTENTS not in files:
        download(storage, path, files, folder)
        return None
    contents = Contents.model_validate_json(storage.read_bytes(f"{path}/{CONTENTS}"))
    contents = Contents(files={name: keys for name, keys in contents.files.items() if name in files})
    download(storage, path, [INDEX, *contents.files_with([OBJECT_GRAPH])], folder)
    return contents

"""A checkpoint's files: an ordinary TensorFlow checkpoint, whoever has written how many data files of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import tensorflow as tf

from sparktf.message import Message
from sparktf.storage.base import Storage
from sparktf.trainer.node.objects import OBJECT_GRAPH, entries_of, stored_keys
from sparktf.wire.restore import Restore
from sparktf.wire.uploads import Uploaded

PREFIX = "ckpt"
INDEX = f"{PREFIX}.index"

CONTENTS = "contents.json"
"""Where a checkpoint of many data files says what is in which; TensorFlow's own index tells that to nobody."""


class Contents(Message):
    """Which tensors are in which data file, so that nobody has to fetch more than he reads."""

    files: dict[str, tuple[str, ...]]

    def files_with(self, keys: Iterable[str]) -> set[str]:
        """Returns the data files that have something of these tensors."""
        wanted = set(keys)
        return {name for name, held in self.files.items() if not wanted.isdisjoint(held)}


class Checkpoint(Protocol):
    """What a node saves: as files, of which other nodes may write a part on their own disks."""

    def write(self, folder: Path) -> tuple[str, ...]:
        """Writes all files; what is trained from then on is not in them.

        Args:
            folder: Where this node's are to be; not there yet.

        Returns:
            Names of the files that other nodes have written.

        Raises:
            StorageError: it cannot be written now, which the training outlives.
        """

    def upload(self, message: Uploaded) -> None:
        """Has the other nodes upload what they have written, beside the training.

        Args:
            message: What this node will tell of its own files.
        """

    def settle(self) -> str:
        """Waits until they have; returns why one could not, "" if all could."""

    def restore(self, storage: Storage, source: Restore, work: Path) -> None:
        """Reads a committed checkpoint into the objects, which all exist already.

        Args:
            work: A folder on the local disk.

        Raises:
            StorageError: it cannot be downloaded.
            AssertionError: it lacks a variable of the model.
            ValueError: a variable has another shape there.
        """


class LocalCheckpoint:
    """A checkpoint that this process writes alone: see `Checkpoint`."""

    def __init__(self, **trackables: Any) -> None:
        """Takes the objects whose state it holds, by the names they have in it."""
        self._objects = tf.train.Checkpoint(**trackables)

    def write(self, folder: Path) -> tuple[str, ...]:
        """See `Checkpoint`."""
        self._objects.write(str(folder / PREFIX))
        return ()

    def upload(self, message: Uploaded) -> None:
        """See `Checkpoint`."""

    def settle(self) -> str:
        """See `Checkpoint`."""
        return ""

    def restore(self, storage: Storage, source: Restore, work: Path) -> None:
        """See `Checkpoint`."""
        self.restore_files(storage, source.path, source.files, work / "restore")

    def restore_files(self, storage: Storage, path: str, files: Sequence[str], folder: Path) -> None:
        """Reads a committed checkpoint of these files; as `restore`.

        Args:
            folder: Where they are meanwhile; not there before, nor afterwards.
        """
        try:
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


def download(storage: Storage, path: str, files: Iterable[str], folder: Path) -> None:
    """Downloads files of a committed checkpoint into a local folder.

    Raises:
        StorageError: one cannot be downloaded.
    """
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        storage.download(f"{path}/{name}", folder / name)


def fetch_for(root: Any, storage: Storage, path: str, files: Sequence[str], folder: Path) -> None:
    """Downloads what is needed to read the state of a trackable out of a committed checkpoint, and little else.

    Raises:
        StorageError: it cannot be downloaded.
    """
    contents = fetch_index(storage, path, files, folder)
    if contents is None:
        return
    keys = stored_keys(entries_of(root)[0], root, folder / PREFIX).values()
    download(storage, path, sorted(contents.files_with(keys) - contents.files_with([OBJECT_GRAPH])), folder)


def fetch_index(storage: Storage, path: str, files: Sequence[str], folder: Path) -> Contents | None:
    """Downloads what tells what is in a committed checkpoint, or all of it.

    Returns:
        What is in which file; None where the checkpoint does not say, so that all are there now.

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

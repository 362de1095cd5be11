"""A checkpoint's files: how they are written, fetched and read."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from sparktf.storage.base import Storage
from sparktf.wire.restore import Restore

PREFIX = "ckpt"


def restore(checkpoint: Any, storage: Storage, source: Restore, work: Path) -> None:
    """Reads a committed checkpoint into the objects of `checkpoint`, which all exist already.

    Raises:
        StorageError: it cannot be downloaded.
        ValueError: the model's variables are not those of the checkpoint.
    """
    folder = work / "restore"
    fetch(storage, source.path, source.files, folder)
    read(checkpoint, folder)
    shutil.rmtree(folder)


def fetch(storage: Storage, path: str, files: Sequence[str], folder: Path) -> None:
    """Downloads the files of a committed checkpoint into a local folder.

    Raises:
        StorageError: it cannot be downloaded.
    """
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        storage.download(f"{path}/{name}", folder / name)


def write(checkpoint: Any, folder: Path) -> None:
    """Writes the objects of `checkpoint` into a local folder, in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    checkpoint.write(str(folder / PREFIX))


def read(checkpoint: Any, folder: Path) -> None:
    """Reads what `write` or another checkpoint's `fetch` has put into a local folder.

    Raises:
        AssertionError: the model's variables are not those of the checkpoint.
    """
    checkpoint.read(str(folder / PREFIX)).assert_existing_objects_matched()


def checkpoint_of(**trackables: Any) -> Any:
    """Returns the `tf.train.Checkpoint` of a model and its optimizer."""
    return tf.train.Checkpoint(**trackables)

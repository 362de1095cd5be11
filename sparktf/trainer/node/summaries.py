"""TensorBoard summaries: the leader writes and uploads whole event files, since HDFS has no shared append."""

from __future__ import annotations

import shutil
from pathlib import Path

import tensorflow as tf

from sparktf.errors import StorageError
from sparktf.storage.base import Storage
from sparktf.storage.transactions.checkpoints import upload_folder

# As `tf.summary.scalar` writes it; that function needs the tensorboard package, which only readers need.
_SCALAR = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"),
    data_class=1,  # DATA_CLASS_SCALAR
)


class Summaries:
    """Collects scalars, and writes them as event files, one folder for each stream."""

    def __init__(self, storage: Storage, target: str, work: Path, attempt: int) -> None:
        self._storage = storage
        self._target = target
        self._work = work / "tensorboard"
        self._attempt = attempt
        self._segment = 0
        self._scalars: list[tuple[str, str, float, int]] = []

    def scalar(self, stream: str, name: str, value: float, step: int) -> None:
        """Keeps one value for the next `flush`."""
        self._scalars.append((stream, name, value, step))

    def flush(self) -> None:
        """Writes and uploads the values since the last flush.

        Raises:
            StorageError: a file could not be written or uploaded; the values are kept.
        """
        if not self._scalars:
            return
        self._segment += 1
        try:
            self._write()
            upload_folder(self._storage, self._work, self._target)
        except StorageError:
            raise
        except (tf.errors.OpError, OSError) as error:
            raise StorageError(f"{self._work} cannot be written: {error}") from error
        finally:
            shutil.rmtree(self._work, ignore_errors=True)
        self._scalars.clear()

    def _write(self) -> None:
        """Writes one event file for each stream into the local folder."""
        for stream in sorted({stream for stream, *_ in self._scalars}):
            suffix = f".{self._attempt:03d}-{self._segment:05d}"
            writer = tf.summary.create_file_writer(str(self._work / stream), filename_suffix=suffix)
            with writer.as_default():
                for _, name, value, step in (s for s in self._scalars if s[0] == stream):
                    tf.summary.write(name, tf.constant(value, tf.float32), step=step, metadata=_SCALAR)
            writer.close()

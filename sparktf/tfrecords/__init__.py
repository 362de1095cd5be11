"""DataFrames as TFRecord files of tensorflow.Example messages, and back. Above the driver.

May import the driver's sources, the executor's readers and writers, and storage. Nobody below imports it; importing it
needs pyspark, and no TensorFlow.
"""

from __future__ import annotations

from sparktf.tfrecords.reading import read
from sparktf.tfrecords.writing import write

__all__ = ["read", "write"]

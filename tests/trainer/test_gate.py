"""What the gate finds of two models, beside what plain Keras says of each."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trainer import lake, reference
from trainer.local_gang import LocalGang

from sparktf.comparison import Comparison
from sparktf.config.job import JobConfig
from sparktf.driver.hooks import Hooks
from sparktf.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.wire.model_source import Models, ModelSource

HELD_OUT = [350, 20]
"""Rows of the files that are held out; of two workers one has nearly all."""

"""What the fork server of the tests imports once, for all processes that it forks: agents, and what has TensorFlow."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from sparktf.trainer.nursery import import_with_one_thread

sys.path.insert(0, str(Path(__file__).parents[1]))
import_with_one_thread(["tf_keras"])
importlib.import_module("trainer.local_agent")

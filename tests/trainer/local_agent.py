"""A node agent in a process of its own.

Imports nothing of Spark: a trainer must not see it.
"""

from __future__ import annotations

import os

from sparktf.executor import agent


def run_agent(partition: int, settings: agent.AgentSettings, folder: str, task: int) -> None:
    """Runs an agent until it is dismissed.

    Args:
        folder: For everything that agent and trainers write locally.
        task: See `agent.run_agent`.
    """
    os.environ["SPARK_LOCAL_DIRS"] = folder
    agent.run_agent(partition, settings, task)

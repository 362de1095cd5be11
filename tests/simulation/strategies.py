"""The strategies that are played."""

from __future__ import annotations

LOCKSTEP = "multi_worker_mirrored"
PARAMETER_SERVER = "parameter_server"
HEAD, OBJECT_HEAD = "head", "object head"
"""No strategy: the seeds of `heads`, which play no run."""

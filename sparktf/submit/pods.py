"""The settings of a submission's pods, before there are any."""

from __future__ import annotations

from pathlib import PurePosixPath

from sparktf.config.job import JobConfig
from sparktf.errors import PreflightError

_BRINGS_VOLUMES = (".volumes.", "podTemplateFile")
"""In names of Spark's settings by which pods have volumes of which the section `submit.kubernetes` does not tell."""


def check_output_is_shared(config: JobConfig) -> None:
    """Refuses an output folder that each pod would have for itself, and that would be gone with it.

    Args:
        config: With its paths normalised.

    Raises:
        PreflightError: it is a local folder, and on no volume.
    """
    path, submit = config.output.path, config.submit
    if not path.startswith("/") or any(part in key for key in submit.conf for part in _BRINGS_VOLUMES):
        return
    if not any(PurePosixPath(path).is_relative_to(volume.path) for volume in submit.kubernetes.volumes.values()):
        raise PreflightError(
            f"output.path: {path} would be a folder of each pod's own, gone with the pod: put it below the path of a "
            "volume (submit.kubernetes.volumes), or in HDFS or a store"
        )

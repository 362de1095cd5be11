"""The section `timeouts` of the configuration."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, PositiveFloat

from sparktf.config.section import Section


class TimeoutsConfig(Section):
    """Upper bounds of every wait, in seconds."""

    KEY: ClassVar = "timeouts"

    reserve: PositiveFloat = Field(
        default=300.0, description="For all agents of the gang to register, also after the cluster has taken some back."
    )
    replace: PositiveFloat = Field(
        default=30.0,
        description="For a lost agent to come back before going on with fewer; under `parameter_server`, for another "
        "one to take a lost worker's place before a stand-in does, or the attempt fails: [async.md](async.md). With "
        "`train.min_workers`, for another one to join too few.",
    )
    start: PositiveFloat = Field(
        default=180.0, description="For every trainer to build its model and call itself ready."
    )
    heartbeat: PositiveFloat = Field(
        default=15.0,
        description="Silence after which an agent or trainer counts as lost. Three heartbeats at least, which are "
        "0.5 s apart on up to 16 nodes, on more 30 ms for each: [performance.md](../inside/performance.md).",
    )
    driver_lost: PositiveFloat = Field(
        default=60.0, description="Silence of the driver after which nodes stop by themselves."
    )
    progress: PositiveFloat = Field(
        default=900.0, description="For a training trainer to finish its next call into TensorFlow."
    )
    upload: PositiveFloat = Field(
        default=900.0,
        description="For a checkpoint's upload or the model's export, and for a fresh process to load a model that is "
        "to be published. Checkpoints that fail for as long end the run.",
    )
    owner: PositiveFloat = Field(
        default=60.0,
        description="The owner of a run that gives no sign of life for this long is gone: another submission of the "
        "run takes it over. An owner that cannot give one commits nothing: [ownership.md](../nights/ownership.md).",
    )
    mlflow: PositiveFloat = Field(
        default=60.0, description="For MLflow to take what a run has to say at its beginning, and at its end."
    )
    on_end: PositiveFloat = Field(default=60.0, description="For the command `output.on_end`.")
    stop: PositiveFloat = Field(default=5.0, description="Between asking a trainer to stop and killing it.")

"""The section `submit.kubernetes` of the configuration: what pods are made of."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from sparktf.config.section import Section

_NAME = r"^[a-z0-9.-]+$"


class VolumeConfig(Section):
    """A volume that each pod of a run has, the driver's too. One of `claim`, `host_path` and `nfs` says what it is."""

    KEY: ClassVar = "submit.kubernetes.volumes.<name>"

    path: str = Field(pattern=r"^/", description="Where pods find it.")
    claim: str | None = Field(default=None, pattern=_NAME, description="Its PersistentVolumeClaim, of the namespace.")
    host_path: str | None = Field(default=None, pattern=r"^/", description="A folder that each node has.")
    nfs: str | None = Field(
        default=None, pattern=r"^[^:/]+:/.*$", description="A folder of a server's: `server:/path`."
    )
    read_only: bool = Field(default=False, description="Whether pods may only read it.")

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if sum(kind is not None for kind in (self.claim, self.host_path, self.nfs)) != 1:
            raise ValueError("give one of claim, host_path and nfs")
        return self


class KubernetesConfig(Section):
    """Pods that `sparktf submit` asks for, with `submit.master: k8s://...`; other masters ignore it."""

    KEY: ClassVar = "submit.kubernetes"

    image: str | None = Field(
        default=None,
        min_length=1,
        description="Image of all pods, with Spark, Python and sparktf: [kubernetes.md](../cluster/kubernetes.md).",
    )
    namespace: str = Field(default="default", pattern=_NAME, description="Where the pods are made.")
    service_account: str | None = Field(
        default=None, pattern=_NAME, description="Of the driver's pod, which makes the others; the namespace's default."
    )
    volumes: dict[str, VolumeConfig] = Field(default={}, description="Volumes of all pods.")
    upload: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9]+:/",
        description="Where a submission puts its files for a driver in cluster mode: a folder in a store, or on a "
        "volume that this machine has, too (`file:///shared/uploads`). Spark leaves them there.",
    )
    python: str = Field(default="python3", min_length=1, description="Python of the image, without `archive`.")

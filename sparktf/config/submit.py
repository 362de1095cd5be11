"""The section `submit` of the configuration, which only `sparktf submit` reads."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from sparktf.config.kubernetes_section import KubernetesConfig
from sparktf.config.section import Section

PRINCIPAL, KEYTAB = "spark.kerberos.principal", "spark.kerberos.keytab"

_UPLOAD = "spark.kubernetes.file.upload.path"

_MASTER = re.compile(
    r"yarn|local(\[(\d+|\*)(,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|(spark|k8s)://.+"
)


class SubmitConfig(Section):
    """Resources that `sparktf submit` requests from Spark, YARN or Kubernetes; other ways to start a run ignore it."""

    KEY: ClassVar = "submit"

    master: str = Field(
        default="yarn", description="Spark's master: `yarn`, `k8s://https://host:port`; `local[n]`, in client mode."
    )
    deploy_mode: Literal["client", "cluster"] = Field(
        default="cluster",
        description="Where the driver runs: in a container or a pod of the cluster's, or on this machine.",
    )
    queue: str = Field(default="default", min_length=1, description="YARN's queue.")
    driver_memory_mib: PositiveInt = Field(default=1024, description="Heap of the driver's JVM, in MiB.")
    executor_memory_mib: PositiveInt = Field(
        default=1024, description="Heap of an executor's JVM, in MiB; TensorFlow lives outside it."
    )
    executor_cores: PositiveInt = Field(default=1, description="Cores of an executor.")
    archive: str | None = Field(
        default=None,
        description="Packed environment (`sparktf pack`), a local file or `hdfs://...`: the containers' Python.",
    )
    py_files: tuple[str, ...] = Field(
        default=(), description="Further `.py` and `.zip` files for driver and executors."
    )
    files: tuple[str, ...] = Field(default=(), description="Further files, put into every container's folder.")
    max_app_attempts: PositiveInt = Field(
        default=2, description="ApplicationMasters that YARN may start in cluster mode: a lost driver is replaced."
    )
    kubernetes: KubernetesConfig = Field(default=KubernetesConfig(), description="Pods, where the master is `k8s://`.")
    principal: str | None = Field(
        default=None, min_length=1, description="Kerberos' principal of `keytab`, as in `spark.kerberos.principal`."
    )
    keytab: str | None = Field(
        default=None,
        min_length=1,
        description="Local file of the principal's keys, with which Spark gets new tokens however long the run lasts.",
    )
    proxy_user: str | None = Field(
        default=None,
        min_length=1,
        description="User as whom the run acts, and whose files it writes, by the login of the one who submits: "
        "`spark-submit --proxy-user`. The cluster has to allow it (`hadoop.proxyuser.*`).",
    )
    conf: dict[str, str] = Field(
        default={},
        description="Any further setting of Spark's; it wins over those that follow from the other keys. Commands go "
        "by `spark.hadoop.*`, too, where they look at data and runs. What looks like a secret (`password`, "
        "`access.key`, ...) is neither shown nor stored, and reaches Spark in a file.",
    )

    @field_validator("conf", mode="before")
    @classmethod
    def _settings_are_text(cls, value: Any) -> Any:
        """Converts YAML's numbers and bools to the text that Spark expects: `true`, `3`."""
        return {k: _setting(v) for k, v in value.items()} if isinstance(value, dict) else value

    @field_validator("master")
    @classmethod
    def _is_a_master(cls, master: str) -> str:
        if not _MASTER.fullmatch(master):
            raise ValueError(f"{master!r} is no master of Spark's: write yarn, k8s://https://host:443 or local[4]")
        return master

    @model_validator(mode="after")
    def _keytab_is_somebodys(self) -> Self:
        if (self.principal is None) != (self.keytab is None):
            given, lacking = ("keytab", "principal") if self.principal is None else ("principal", "keytab")
            raise ValueError(f"{given} needs {lacking}: give both, or neither to use your ticket")
        if self.proxy_user and self.login:
            raise ValueError(
                "proxy_user excludes principal and keytab, as spark-submit does: get a ticket of the principal with "
                "kinit, and leave both out; or leave proxy_user out"
            )
        return self

    @property
    def login(self) -> dict[str, str]:
        """Spark's settings for a login with a keytab; empty without one. `conf` wins."""
        found = {PRINCIPAL: self.principal, KEYTAB: self.keytab}
        return {key: named for key, value in found.items() if (named := self.conf.get(key, value))}

    @model_validator(mode="after")
    def _mode_fits_master(self) -> Self:
        # A standalone master starts no drivers in Python, of which spark-submit tells after all else is prepared.
        if self.deploy_mode == "cluster" and self.master.startswith(("local", "spark://")):
            raise ValueError(f"master: {self.master} needs deploy_mode: client")
        return self

    @model_validator(mode="after")
    def _pods_can_be_made(self) -> Self:
        if not self.master.startswith("k8s://"):
            return self
        if self.kubernetes.image is None and not any(key.endswith("container.image") for key in self.conf):
            raise ValueError(f"master: {self.master} needs kubernetes.image: an image with Spark, Python and sparktf")
        if self.deploy_mode == "cluster" and self.kubernetes.upload is None and _UPLOAD not in self.conf:
            raise ValueError(
                f"master: {self.master} with deploy_mode: cluster needs kubernetes.upload: a folder in a store, or "
                "on a volume, from which the driver's pod takes the files of this submission; or deploy_mode: client"
            )
        return self


def _setting(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else value

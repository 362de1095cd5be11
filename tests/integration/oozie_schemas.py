"""Oozie's own schemas, out of its client's jar; Maven brings it once."""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from pathlib import Path

from lxml import etree

from minihadoop.environment import cache_root

_JAR = "oozie-client-5.2.1.jar"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_TOGETHER = """\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
  <xs:import namespace="uri:oozie:workflow:1.0" schemaLocation="oozie-workflow-1.0.xsd"/>
  <xs:import namespace="uri:oozie:shell-action:1.0" schemaLocation="shell-action-1.0.xsd"/>
  <xs:import namespace="uri:oozie:email-action:0.2" schemaLocation="email-action-0.2.xsd"/>
  <xs:import namespace="uri:oozie:coordinator:0.5" schemaLocation="oozie-coordinator-0.5.xsd"/>
</xs:schema>
"""


def oozie_schema(folder: Path) -> etree.XMLSchema:
    """Returns the schemas of a workflow with its actions and of a coordinator, as the server puts them together.

    Args:
        folder: Where they are unpacked.
    """
    with zipfile.ZipFile(_client()) as jar:
        jar.extractall(folder, [name for name in jar.namelist() if name.endswith(".xsd")])
    together = folder / "together.xsd"
    together.write_text(_TOGETHER, encoding="utf-8")
    return etree.XMLSchema(etree.parse(together))


def _client() -> Path:
    kept = cache_root() / _JAR
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix="oozie-") as aside:
            artifact = "-Dartifact=org.apache.oozie:oozie-client:5.2.1"
            subprocess.run(["mvn", "-B", "-ntp", "-q", _COPY, artifact, f"-DoutputDirectory={aside}"], check=True)
            Path(aside, _JAR).rename(kept)
    return kept

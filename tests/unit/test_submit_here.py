"""A submission whose driver is on this machine: what it takes for its own application."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparktf.config.load import parse_config
from sparktf.errors import Verdict
from sparktf.storage.file_systems import FileSystems
from sparktf.submit.command import submit

CONFIG = """\
name: churn
model: shapes:build
data: {{path: {folder}/lake, inputs: {{age: age}}, targets: {{churned: churned}}}}
output: {{path: {folder}/runs}}
submit: {{master: "local[2]", deploy_mode: client}}
"""
MENTIONS = """\
#!/bin/sh
echo "the day's rows come from application_1700000000000_0042" >&2
"""


def program(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def test_an_application_of_yarns_that_a_driver_here_only_mentions_is_not_taken_for_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path / "spark/bin/spark-submit", MENTIONS)
    program(tmp_path / "java/bin/java")
    (tmp_path / "shapes.py").write_text("def build(): ...\n", encoding="utf-8")
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    config = parse_config(CONFIG.format(folder=tmp_path))

    assert submit(config, tmp_path, "r", FileSystems()) == Verdict.INFRASTRUCTURE

    said = "".join(capfd.readouterr())
    assert "the day's rows come from application_1700000000000_0042" in said
    assert "submitted as" not in said  # else Ctrl-C would end it
    assert "the driver left no verdict" in said

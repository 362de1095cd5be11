"""A packed environment runs where it is unpacked, also after the one it was made from is gone."""

from __future__ import annotations

import os
import py_compile
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from sparktf.errors import ConfigError
from sparktf.submit.pack import pack

SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A small environment: a package, a script, and two editable installations."""
    prefix = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    site = prefix / SITE
    for folder in (site / "plain", site / "numpy/tests", site / "plain/tests", site / "plain/__pycache__"):
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("NAME = __name__\n", encoding="utf-8")
    script = prefix / "bin/hello"
    script.write_text(f"#!{prefix}/bin/python\nimport plain\nprint('hello from', plain.__file__)\n", encoding="utf-8")
    script.chmod(0o755)
    _editable_by_finder(site, tmp_path / "one")
    _editable_by_path(site, tmp_path / "two")
    return prefix


def _editable_by_finder(site: Path, project: Path) -> None:
    (project / "mapped").mkdir(parents=True)
    (project / "mapped/__init__.py").write_text("", encoding="utf-8")
    finder = (
        f"from __future__ import annotations\nMAPPING: dict[str, str] = {{'mapped': {str(project / 'mapped')!r}}}\n"
    )
    (site / "__editable___one_1_0_finder.py").write_text(finder + "def install(): ...\n", encoding="utf-8")
    line = "import __editable___one_1_0_finder; __editable___one_1_0_finder.install()"
    (site / "__editable__.one-1.0.pth").write_text(line, encoding="utf-8")


def _editable_by_path(site: Path, project: Path) -> None:
    (project / "sourced").mkdir(parents=True)
    (project / "sourced/__init__.py").write_text("", encoding="utf-8")
    (project / "single.py").write_text("", encoding="utf-8")
    (project / "setup.py").write_text("raise SystemExit\n", encoding="utf-8")
    (site / "two.pth").write_text(f"{project}\nimport os\n", encoding="utf-8")


@pytest.mark.parametrize("name", ["env.tar.gz", "env.tar"])
def test_it_runs_elsewhere_without_anything_of_the_original(environment: Path, tmp_path: Path, name: str) -> None:
    archive = tmp_path / name
    packed = pack(environment, archive)
    assert packed.nbytes == archive.stat().st_size
    for gone in ("venv", "one", "two"):
        shutil.rmtree(tmp_path / gone)
    moved = tmp_path / "elsewhere/env"
    moved.mkdir(parents=True)
    subprocess.run(["tar", "-xf", archive, "-C", moved], check=True)  # as YARN does it
    code = (
        "import sys, plain, mapped, sourced, single, sparktf;"
        "print(sys.prefix, *(m.__file__ for m in (plain, mapped, sourced, single, sparktf)))"
    )
    command = [str(moved / "bin/python"), "-c", code]
    found = subprocess.run(command, cwd="/", env={}, capture_output=True, text=True, check=True).stdout.split()
    assert len(found) == 6
    assert all(path.startswith(str(moved)) for path in found), found
    said = subprocess.run(
        [moved / "bin/hello"], cwd="/", env={"PATH": "/usr/bin:/bin"}, stdout=-1, text=True, check=True
    )
    assert said.stdout == f"hello from {moved / SITE}/plain/__init__.py\n"


def test_no_member_names_a_folder_that_stays_behind(environment: Path, tmp_path: Path) -> None:
    pack(environment, tmp_path / "env.tar")
    with tarfile.open(tmp_path / "env.tar") as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None and "/sparktf/" not in member.name:
                assert str(tmp_path).encode() not in file.read(), member.name
            assert str(tmp_path) not in member.linkname


def test_what_no_node_needs_is_left_out(environment: Path, tmp_path: Path) -> None:
    pack(environment, tmp_path / "env.tar")
    with tarfile.open(tmp_path / "env.tar") as tar:
        names = tar.getnames()
    assert f"{SITE}/plain/tests/__init__.py" in names
    assert f"{SITE}/numpy/tests/__init__.py" not in names
    assert not [name for name in names if "activate" in name or "__editable__" in name]


def test_what_is_compiled_already_is_not_compiled_by_each_node(environment: Path, tmp_path: Path) -> None:
    plain, stale = environment / SITE / "plain/__init__.py", environment / SITE / "plain/tests/__init__.py"
    for source in (plain, stale):
        py_compile.compile(str(source))
    stale.write_text("NAME = 'another'\n", encoding="utf-8")
    pack(environment, tmp_path / "env.tar")
    moved = tmp_path / "elsewhere/env"
    moved.mkdir(parents=True)
    subprocess.run(["tar", "-xf", tmp_path / "env.tar", "-C", moved], check=True)
    command = [str(moved / "bin/python"), "-v", "-c", "import plain.tests; print(plain.tests.NAME)"]
    done = subprocess.run(command, cwd="/", env={}, capture_output=True, text=True, check=True)
    assert done.stdout == "another\n"
    below = f"{moved / SITE}/plain"
    assert f"# code object from '{below}/__pycache__/" in done.stderr
    assert f"# code object from {below}/tests/__init__.py" in done.stderr


def test_credentials_stay_at_home_and_are_named(environment: Path, tmp_path: Path) -> None:
    site, key = environment / SITE, "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n"
    (environment / "pip.conf").write_text("[global]\nindex = https://me:hunter2@index\n", encoding="utf-8")
    for name, text in {
        "plain/.env": "TOKEN=hunter2",
        "plain/.netrc": "machine index login me password hunter2",
        "plain/client.pem": key,
        "plain/account.json": '{"private_key": "-----BEGIN PRIVATE KEY-----hunter2"}',
        "plain/nightly.keytab": "hunter2",
        "plain/.git/config": "url = https://me:hunter2@host/repository",
        "plain/.git/objects/aa": "hunter2",
        "plain/authorities.pem": "-----BEGIN CERTIFICATE-----\n",
        "plain/key.json": "{}",
    }.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")

    packed = pack(environment, tmp_path / "env.tar")

    names = [".env", ".git", ".netrc", "account.json", "client.pem", "nightly.keytab"]
    assert packed.left_out == (*(f"{SITE}/plain/{name}" for name in names), "pip.conf")
    content = packed.output.read_bytes()
    assert b"hunter2" not in content
    assert f"{SITE}/plain/authorities.pem".encode() in content
    assert f"{SITE}/plain/key.json".encode() in content


def test_nobody_else_can_read_the_archive_not_even_while_it_is_written(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    fsync = os.fsync

    def look(handle: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(handle).st_mode))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", look)
    output = tmp_path / "env.tar"
    output.touch(mode=0o644)
    pack(environment, output)
    assert [*modes, stat.S_IMODE(output.stat().st_mode)] == [0o600, 0o600]


def test_the_same_environment_gives_the_same_archive(environment: Path, tmp_path: Path) -> None:
    for name in ("a.tar.gz", "b.tar.gz"):
        pack(environment, tmp_path / name)
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()


def test_an_archive_that_fails_leaves_what_was_there(environment: Path, tmp_path: Path) -> None:
    output = tmp_path / "out/env.tar.gz"
    pack(environment, output)
    before = output.read_bytes()
    (environment / SITE / "__editable___one_1_0_finder.py").write_text("MAPPING = unknown()\n", encoding="utf-8")
    with pytest.raises((ConfigError, ValueError)):
        pack(environment, output)
    assert output.read_bytes() == before
    assert [path.name for path in output.parent.iterdir()] == ["env.tar.gz"]


def test_what_cannot_be_moved_is_refused_with_what_to_do(environment: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no virtual environment: run sparktf pack with the python of one"):
        pack(tmp_path, tmp_path / "env.tar.gz")
    with pytest.raises(ConfigError, match=r"env.zip: must end with one of .tar.gz, .tgz, .tar"):
        pack(environment, tmp_path / "env.zip")
    (environment / "conda-meta").mkdir()
    with pytest.raises(ConfigError, match=r"is a conda environment: pack it with conda-pack"):
        pack(environment, tmp_path / "env.tar.gz")

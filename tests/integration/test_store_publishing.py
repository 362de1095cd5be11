"""Published models in real servers of stores: what readers and those who know the store alone find, at any time."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.store_readers import StoreReaders
from object_stores import StoreServer

from sparktf.errors import StorageError
from sparktf.hadoop import HadoopConf
from sparktf.published.serving import CURRENT, ModelManifest, Serving
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.objects.object_storage import ObjectStorage
from sparktf.storage.transactions.checkpoints import MANIFEST
from sparktf.wire.uploads import StagedFile

NAMES = ("variables/variables.index", "saved_model.pb", "model.keras")


def systems_of(server: StoreServer) -> FileSystems:
    return FileSystems(HadoopConf(properties=server.hadoop()))


@dataclass(frozen=True)
class Model:
    """A model of a run; see `Candidate`."""

    storage: Storage
    local: Path
    run_id: str
    date: str = "2026-11-20"

    def stage(self, folder: str) -> str:
        """See `Candidate`."""
        staged, files = f"{folder}/_staged-{self.run_id}", []
        for name in NAMES:
            file = self.local / self.run_id / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{name} of {self.run_id}")
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            self.storage.upload(file, f"{staged}/{name}")
            files.append(StagedFile(name=name, nbytes=file.stat().st_size, sha256=digest))
        manifest = ModelManifest(
            files=tuple(files), name="t", run_id=self.run_id, date=self.date, published="", plan_hash="", steps=1
        )
        self.storage.write_bytes(f"{staged}/{MANIFEST}", manifest.model_dump_json().encode())
        return staged


def shown(server: StoreServer, serving: Serving) -> dict[str, list[str]]:
    """Returns the versions that somebody finds who knows the store alone, with their files; and `CURRENT`."""
    plain, found = systems_of(server).open(serving.path), dict[str, list[str]]()
    for entry in plain.walk(serving.path):
        version, _, name = entry.path.removeprefix(f"{serving.path}/").partition("/")
        found.setdefault(version, []).append(name)
    return found


def test_readers_find_whole_versions_while_models_come_and_go(server: StoreServer, tmp_path: Path) -> None:
    root = f"{server.root}/published"
    storage = systems_of(server).open_runs(root)
    serving = Serving(storage, root, "t")
    with StoreReaders(systems_of(server), root) as reader:
        for number, run_id in enumerate(("a", "b", "c"), 1):
            assert serving.publish(Model(storage, tmp_path, run_id), lambda: None).version == number
        assert serving.rollback() == 2
        whole = sorted((*NAMES, MANIFEST))
        assert shown(server, serving) == {"1": whole, "2": whole, CURRENT: [""]}
        assert serving.publish(Model(storage, tmp_path, "d"), lambda: None).version == 4
        assert serving.prune(1) == (1, 2, 3)
    assert reader.wrong == []
    assert reader.looks > 10
    assert shown(server, serving) == {"4": whole, CURRENT: [""]}
    assert [v.number for v in serving.versions()] == [4]
    assert not [e.path for e in storage.list(serving.path) if e.path.rpartition("/")[2].startswith("_")]


def test_who_is_cut_off_before_others_find_it_is_followed_up_by_the_next(
    server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"{server.root}/cut"
    storage = systems_of(server).open_runs(root)
    serving, model = Serving(storage, root, "t"), Model(storage, tmp_path, "a")

    def cut(folder: str, last: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(storage, "show", cut)
        with pytest.raises(KeyboardInterrupt):
            serving.publish(model, lambda: None)
    assert serving.current() == 1
    assert serving.publish(model, lambda: None).version == 1
    assert shown(server, serving) == {"1": sorted((*NAMES, MANIFEST)), CURRENT: [""]}


def test_a_store_that_keeps_no_conditions_is_refused(server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    systems = systems_of(server)
    systems.open_runs(f"{server.root}/new").probe(f"{server.root}/new/runs")
    assert not systems.open(f"{server.root}/new").exists(f"{server.root}/new")

    def put(self: ObjectStorage, path: str, content: bytes, tag: object) -> object:
        self.write_bytes(path, content)
        return self.tag_of(path)

    monkeypatch.setattr(ObjectStorage, "put_tagged", put)
    with pytest.raises(
        StorageError, match=r"\(If-None-Match\) has replaced an object, so that two submissions could own"
    ):
        systems.open_runs(f"{server.root}/new").probe(f"{server.root}/new/runs")

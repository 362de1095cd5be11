"""A cluster of Kubernetes for the session: an API server and a node. Where it cannot run, the tests fail."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from integration.rows import write_rows
from integration.sandbox import Sandbox
from integration.watch import Watch
from kubernetes.api_server import ApiServer
from kubernetes.pods import GATEWAY, Node, build_network
from object_stores import S3Server, s3_server

_SHOWN = 4000


class Cluster(NamedTuple):
    """An API server, and a node that runs its pods."""

    api: ApiServer
    node: Node


@pytest.fixture(scope="session")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster; `python -m kubernetes` gives it a network."""
    build_network()
    folder = tmp_path_factory.mktemp
    with ApiServer(GATEWAY, folder("api")) as api, Node(api, folder("pods")) as node:
        yield Cluster(api, node)


@pytest.fixture
def store(pods: Cluster, tmp_path: Path) -> Iterator[S3Server]:
    """A store of objects that pods reach. Its keys are in a Secret, and nowhere else in the cluster."""
    assert isinstance(pods, Cluster), "pods make the network"
    with s3_server(tmp_path / "store", GATEWAY) as server:
        yield server


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """The folders of a submission on this machine; whatever still runs there in the end is killed."""
    made = Sandbox(tmp_path / "app")
    try:
        yield made
    finally:
        made.family.kill()


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    """A watch that lets all trainers go in the end, also when its test fails."""
    made = Watch(tmp_path / "books")
    yield made
    made.release()


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of 600 rows in three files of different sizes, on a volume that all pods have."""
    return write_rows(tmp_path_factory.mktemp("rows") / "lake")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows with a failed test what its submissions and its pods said."""
    report = yield
    if report.when == "call" and report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, Sandbox):
                report.sections.append((f"what {name} said", value.report()))
            if isinstance(value, Cluster):
                pods = [*value.node.past.values(), *value.node.pods.values()]
                report.sections += [(f"what {pod.name} said", pod.log[-_SHOWN:]) for pod in pods]
    return report

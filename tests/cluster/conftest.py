"""The cluster that the tests share: brought up once, always taken down. Where it cannot run, the tests fail."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil
import pytest

from minihadoop import ClusterConfig, MiniHadoop, down, lifecycle, up

PREFIX = "test-"
VERSION = "TESTED_HADOOP"
"""Variable of `make matrix` with the version of Hadoop; without it, the newest."""


def needs_hdfs_alone(item: pytest.Item) -> bool:
    return item.path.name.startswith("test_hdfs_")


@pytest.fixture(scope="session", autouse=True)
def _no_leftovers() -> None:
    """Takes down what test runs that were killed have left; a cluster is named after the process that made it."""
    for name in lifecycle.names():
        owner = name.removeprefix(PREFIX).partition("-")[0]
        if name.startswith(PREFIX) and not psutil.pid_exists(int(owner)):
            down(name, print)


@pytest.fixture(scope="session")
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[MiniHadoop]:
    """Without YARN for tests of HDFS alone, as `make cluster` runs them beside the others."""
    hdfs_alone = all(map(needs_hdfs_alone, request.session.items))
    config = ClusterConfig(f"{PREFIX}{os.getpid()}", yarn=not hdfs_alone, hadoop=os.environ.get(VERSION, ""))
    try:
        yield up(config, print)
    finally:
        down(config.name, print)


def secured_cluster(name: str, *, https: bool = False) -> Iterator[MiniHadoop]:
    """Brings up a cluster with Kerberos and a pair of NameNodes; takes it down after the `yield`.

    Spark asks for others after three quarters of a token's time, a driver after 0.85: what is left must do for a busy
    machine to hand them out. The 10 s that 40 s leave were too few for one.
    """
    life = {"renew-interval": "60000", "max-lifetime": "75000"}
    settings = tuple((f"dfs.namenode.delegation.token.{name}", value) for name, value in life.items())
    config = ClusterConfig(
        f"{PREFIX}{os.getpid()}-{name}",
        hosts=2,
        host_memory_mib=8192,
        secure=True,
        https=https,
        namenodes=2,
        settings=settings,
    )
    try:
        yield up(config, print)
    finally:
        down(config.name, print)
        assert config.name not in lifecycle.names()


@pytest.fixture(scope="session")
def secured() -> Iterator[MiniHadoop]:
    """A cluster with Kerberos and a pair of NameNodes; its tokens have to be renewed after 60 s and end after 75."""
    yield from secured_cluster("secure")


@pytest.fixture(scope="module")
def secured_by_https() -> Iterator[MiniHadoop]:
    """Another one, which speaks HTTPS: over HTTP, a token stands in the address of a request."""
    yield from secured_cluster("https", https=True)


@pytest.fixture
def hadoop(shared_cluster: MiniHadoop) -> Iterator[MiniHadoop]:
    """The shared cluster, with the test inside its network; whole again before the next test."""
    with shared_cluster.inside():
        yield shared_cluster
        up(shared_cluster.config, print)

"""Fixtures for tests that stop and kill brokers: a cluster of the file's own, and what it needs.

A file of tests takes those it needs, ``bootstrap = own_cluster.bootstrap``: they replace the
fixtures of the same names, which are of the broker that all files share. ``cluster`` is of three
brokers, one for all tests of the file; a file may have another one of its own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.conftest import Names
from compat_tests.three_brokers import Cluster, Topic, three_brokers
from compat_tests.verifiable import idempotent


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers."""
    with three_brokers(tmp_path_factory.mktemp("brokers")) as cluster:
        yield cluster


@pytest.fixture
def bootstrap(cluster: Cluster) -> str:
    """The addresses of the brokers."""
    return cluster.bootstrap


@pytest.fixture
def names() -> Names:
    """Names for topics, which end with the cluster: the client may have lost its controller."""
    return Names()


@pytest.fixture
def topic(cluster: Cluster, names: Names) -> Topic:
    """A topic that needs two replicas in sync."""
    return Topic(cluster, names.topic(), 2)


@pytest.fixture
def durable(tmp_path: Path) -> tuple[str, str]:
    """The options of an idempotent VerifiableProducer: by itself it never repeats a request."""
    return idempotent(tmp_path)

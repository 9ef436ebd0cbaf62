"""Images to decide on, and a real etcd."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random

import pytest

from kwire.metadata.changes import BrokerRegistered, ClusterNamed, apply
from kwire.metadata.image import BrokerImage, MetadataImage
from tests.metadata.real_etcd import KINDS, Running


@pytest.fixture
def random() -> Random:
    """Chance that repeats itself."""
    return Random(7)


@pytest.fixture
def image_of():
    """Makes the image of a new cluster with this many brokers, numbered from 1."""

    def make(brokers: int = 1) -> MetadataImage:
        changes = [ClusterNamed("abc"), *(_registered(n) for n in range(1, brokers + 1))]
        return apply(MetadataImage(), changes, 1)

    return make


def _registered(node_id: int) -> BrokerRegistered:
    return BrokerRegistered(
        BrokerImage(node_id, None, (("PLAINTEXT", "127.0.0.1", 9091 + node_id),))
    )


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Running]]:
    """Starts an etcd of a kind when the first test needs it; all tests of this process share it."""
    with ExitStack() as stack:
        started: dict[str, Running] = {}

        def start(kind: str) -> Running:
            if kind not in started:
                opened = KINDS[kind](tmp_path_factory.mktemp("etcd"))
                started[kind] = stack.enter_context(opened)
            return started[kind]

        yield start

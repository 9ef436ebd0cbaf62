"""Images to decide on, and a real etcd."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random

import pytest

from kwire.metadata.changes import BrokerRegistered, ClusterNamed, apply
from kwire.metadata.image import BrokerImage, MetadataImage
from kwire.testing.etcd import Etcd


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
def etcd() -> Iterator[Callable[[], Etcd]]:
    """Starts one etcd when the first test needs it; all tests of this process share it."""
    with ExitStack() as stack:
        started: list[Etcd] = []

        def start() -> Etcd:
            if not started:
                started.append(stack.enter_context(Etcd()))
            return started[0]

        yield start

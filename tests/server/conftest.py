"""Brokers of a cluster on a real etcd, as processes."""

from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from kwire.config.broker import ONE_REPLICA
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from tests.server.clusters import FEW, PARTITIONS, create, leaders
from tests.support.etcd import MISSING, Etcd, find_etcd


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    """An etcd of this module."""
    if find_etcd() is None:
        pytest.skip(MISSING)
    with Etcd() as started:
        yield started


@pytest.fixture
def start(etcd, tmp_path):
    """Starts a broker by its node id; all are one cluster, whose topics have one replica."""
    prefix = str(uuid4())
    with ExitStack() as stack:

        def started(
            node_id: int,
            directory: str | None = None,
            listen: str = "127.0.0.1:0",
            **settings: str,
        ) -> BrokerProcess:
            own = {
                **ONE_REPLICA,
                "node.id": str(node_id),
                "kwire.metadata.store": f"{etcd.url}/{prefix}",
                "broker.session.timeout.ms": "2000",
                "broker.heartbeat.interval.ms": "300",
                **settings,
            }
            broker = BrokerProcess(tmp_path / (directory or f"b{node_id}"), own, listen)
            broker.start()
            stack.callback(broker.kill)
            return broker

        yield started


@pytest.fixture
def brokers(start) -> dict[int, BrokerProcess]:
    """Three brokers by node id, and a topic ``t`` with partitions on each of them."""
    started = {node_id: start(node_id, **FEW) for node_id in (1, 2, 3)}
    create(started[1], "t", PARTITIONS)
    for broker in started.values():
        wait_until(lambda b=broker: sorted(leaders(b, "t")) == [1, 1, 2, 2, 3, 3], what="topic")
    return started

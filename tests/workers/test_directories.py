"""A data directory goes from one broker to workers, back, and to etcd, without a copy."""

import pytest

from kwire.testing.process import BrokerFailed, BrokerProcess
from kwire.testing.waiting import wait_until
from tests.server.clusters import create, leaders
from tests.support.etcd import MISSING, Etcd, find_etcd
from tests.workers.clients import consumer, produce, read, stored
from tests.workers.conftest import FEW
from tests.workers.test_processes import At


def _group_reads(bootstrap, count):
    member = consumer(bootstrap, "g")
    member.subscribe(["old"])
    values = read(count, member)
    member.commit(asynchronous=False)
    member.close()
    return values


def test_one_broker_becomes_two_and_one_again(start):
    """Topics, records and groups stay; only where the others have no partitions."""
    alone = start(None)
    create(At(alone.bootstrap), "old", 2)
    values = produce(alone.bootstrap, "old", 2, "a")
    assert _group_reads(alone.bootstrap, len(values)) == values
    cluster_id = alone.process.cluster_id
    assert alone.stop() == 0

    workers = start(2)
    assert workers.process.cluster_id == cluster_id
    assert leaders(At(workers.addresses[1]), "old") == [1, 1]
    assert stored(workers.bootstrap, "old", 2, len(values)) == values
    more = produce(workers.bootstrap, "old", 2, "b")
    assert _group_reads(workers.bootstrap, len(more)) == more
    assert workers.stop() == 0

    alone = start(None)
    assert leaders(At(alone.bootstrap), "old") == [1, 1]
    assert stored(alone.bootstrap, "old", 2, len(values + more)) == sorted(values + more)
    last = produce(alone.bootstrap, "old", 2, "c")
    assert _group_reads(alone.bootstrap, len(last)) == last
    assert alone.stop() == 0
    assert start(2).process.cluster_id == cluster_id


def test_fewer_workers_than_hold_partitions_are_refused(start):
    """The line says how many are needed; nothing is changed."""
    workers = start(3)
    create(At(workers.addresses[0]), "t", 3)
    values = produce(workers.bootstrap, "t", 3, "a")
    assert workers.stop() == 0
    needed = r"partitions of t are on node\.id 3, .*: start with kwire serve --workers 3"
    with pytest.raises(BrokerFailed, match=needed):
        start(2)
    for count in (None, 1):
        with pytest.raises(BrokerFailed, match=r"node\.id 2, 3, .* --workers 3"):
            start(count)
    workers = start(3)
    assert stored(workers.bootstrap, "t", 3, len(values)) == values


def test_one_broker_becomes_workers_and_then_brokers_on_etcd(start, tmp_path):
    """The one with the metadata first; another one that comes first puts nothing aside.

    Records of every stage are there, and groups go on where they were.
    """
    if find_etcd() is None:
        pytest.skip(MISSING)
    with Etcd() as etcd:
        assert start(2).stop() == 0
        own = {"kwire.metadata.store": f"{etcd.url}/begun"}
        with (
            BrokerProcess(tmp_path / "data/worker.2", {**own, "node.id": "2"}),
            pytest.raises(BrokerFailed, match="another broker has begun the cluster"),
        ):
            BrokerProcess(tmp_path / "data", own).start()

        alone = start(None)
        create(At(alone.bootstrap), "old", 2)
        oldest = produce(alone.bootstrap, "old", 2, "z")
        assert _group_reads(alone.bootstrap, len(oldest)) == oldest
        assert alone.stop() == 0
        workers = start(2)
        create(At(workers.addresses[0]), "t", 2)
        values = produce(workers.bootstrap, "t", 2, "a")
        more = produce(workers.bootstrap, "old", 2, "b")
        cluster_id = workers.process.cluster_id
        assert workers.stop() == 0
        own = {"kwire.metadata.store": f"{etcd.url}/moved", **FEW}
        second = BrokerProcess(tmp_path / "data/worker.2", {**own, "node.id": "2"})
        with pytest.raises(BrokerFailed, match=r"start the broker first whose data directory has"):
            second.start()
        with BrokerProcess(tmp_path / "data", own) as first, second:
            assert first.cluster_id == cluster_id
            wait_until(lambda: sorted(leaders(second, "t")) == [1, 2], what="both leaders")
            bootstrap = f"{first.bootstrap},{second.bootstrap}"
            assert stored(bootstrap, "t", 2, len(values)) == values
            assert stored(bootstrap, "old", 2, len(oldest + more)) == sorted(oldest + more)
            assert _group_reads(bootstrap, len(more)) == more

"""Several brokers on one etcd, as processes: they see each other, and one that dies is fenced."""

import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from kwire.broker.elsewhere import MOVED, NOTE
from kwire.cli import main
from kwire.config.metadata_store import parse_store
from kwire.metadata.changes import FeatureLevelChanged
from kwire.metadata.embedded import FILE_NAME
from kwire.metadata.store import RevisionConflict
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kwire.record.batch import batches
from kwire.record.records import Record, build_batch
from kwire.testing.asking import Asker
from kwire.testing.process import BrokerFailed, BrokerProcess
from kwire.testing.waiting import wait_until
from tests.metadata.stores import open_etcd
from tests.server.clusters import create, leaders, metadata

pytestmark = pytest.mark.processes

DATA = Path(__file__).parent.parent / "data"


def _nodes(broker: BrokerProcess) -> dict[int, int]:
    """Node ids and ports, as a client of this broker sees them."""
    return {node.node_id: node.port for node in metadata(broker).brokers}


def test_brokers_are_one_cluster(start):
    """Each shows all, at their own ports, and each may change metadata and tells clients so."""
    brokers = {node_id: start(node_id) for node_id in (1, 2, 3)}
    ports = {node: int(broker.bootstrap.rpartition(":")[2]) for node, broker in brokers.items()}
    assert len({broker.cluster_id for broker in brokers.values()}) == 1
    for broker in brokers.values():
        wait_until(lambda broker=broker: _nodes(broker) == ports, what="all brokers")
    for node_id, broker in brokers.items():
        assert metadata(broker).controller_id == node_id
        create(broker, f"t{node_id}", 3)
    for broker in brokers.values():
        for name in ("t1", "t2", "t3"):
            found = wait_until(lambda b=broker, n=name: leaders(b, n), what="the topic")
            assert sorted(found) == [1, 2, 3]
    described = [
        Asker().ask(
            broker.bootstrap, DescribeClusterRequest(endpoint_type=1), 2, DescribeClusterResponse
        )
        for broker in brokers.values()
    ]
    assert len({answer.controller_id for answer in described}) == 1
    assert {node.broker_id for answer in described for node in answer.brokers} == {1, 2, 3}


def test_a_dead_broker_is_fenced_and_comes_back(start):
    """Its partitions have no leader until it is back; whoever is the controller."""
    first, second = start(1), start(2)
    wait_until(lambda: set(_nodes(first)) == {1, 2}, what="both brokers")
    create(first, "t", 2)
    wait_until(lambda: sorted(leaders(second, "t")) == [1, 2], what="the topic")
    for dead, alive, node_id in ((first, second, 1), (second, first, 2)):
        dead.kill()
        wait_until(lambda a=alive: -1 in leaders(a, "t"), what="fencing")
        assert set(_nodes(alive)) == {1, 2} - {node_id}
        dead.restart()
        wait_until(lambda a=alive: sorted(leaders(a, "t")) == [1, 2], what="its return")
        assert sorted(leaders(dead, "t")) == [1, 2]


def test_a_broker_that_stops_tells_the_others(start):
    """They don't wait for the end of its session."""
    first, second = start(1, **{"broker.session.timeout.ms": "60000"}), start(2)
    wait_until(lambda: set(_nodes(second)) == {1, 2}, what="both brokers")
    first.stop()
    wait_until(lambda: set(_nodes(second)) == {2}, timeout_s=10, what="its end")


def test_a_broker_that_was_alone_brings_its_metadata_along(start, tmp_path):
    """Topics and cluster id; its logs stay where they are."""
    alone = BrokerProcess(tmp_path / "b1").start()
    create(alone, "old", 2)
    cluster_id = alone.cluster_id
    alone.stop()
    broker = start(1)
    assert broker.cluster_id == cluster_id
    assert leaders(broker, "old") == [1, 1]
    assert leaders(start(2), "old") == [1, 1]
    broker.kill()
    own = tmp_path / "b1" / FILE_NAME
    own.with_name(MOVED).rename(own)  # as if that start had died before it renamed the file
    broker.restart()
    assert leaders(broker, "old") == [1, 1]
    assert not own.exists()


def test_a_directory_of_a_cluster_is_refused_without_its_store(start, tmp_path):
    """Else topics would be made anew from directory names, without settings, users and rights."""
    brought, joined = tmp_path / "b1", tmp_path / "b2"
    alone = BrokerProcess(brought).start()
    create(alone, "old", 2)
    alone.stop()
    first, second = start(1), start(2)
    create(first, "t", 4)
    wait_until(lambda: sorted(leaders(second, "t")) == [1, 1, 2, 2], what="the topic")
    first.stop()
    second.stop()
    for directory in (brought, joined):
        store = (directory / NOTE).read_text().strip()
        line = rf"{directory} belongs to a cluster, .* kwire\.metadata\.store={store}, as before"
        for options in ((), ("--workers", "2")):
            with pytest.raises(BrokerFailed, match=line):
                BrokerProcess(directory, options=options).start()
        assert not (directory / FILE_NAME).exists()
    (brought / NOTE).unlink()  # as an older kwire left it
    with pytest.raises(BrokerFailed, match=r"whose metadata is in etcd: start with"):
        BrokerProcess(brought).start()
    first.restart()
    second.restart()
    wait_until(lambda: sorted(leaders(first, "t")) == [1, 1, 2, 2], what="the topic again")
    assert leaders(first, "old") == [1, 1]


def test_a_directory_of_kafka_moves_on_to_the_cluster(start, tmp_path):
    """Kafka's metadata stay in it, and every start sees whether Kafka has used it since."""
    with tarfile.open(DATA / "kafka-4.4-data-dir.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    directory = (tmp_path / "logs").rename(tmp_path / "b1")
    with pytest.raises(BrokerFailed, match=r"Apache Kafka's; start kwire once without"):
        start(1)
    BrokerProcess(directory).start().stop()
    kafkas = directory / "__cluster_metadata-0" / f"{0:020d}.log"
    kept = kafkas.read_bytes()
    end = max(batch.last_offset for batch in batches(kept)) + 1
    later = build_batch([Record(end, 0, None, bytes([1, 20, 0, 0]))], base_offset=end)
    kafkas.write_bytes(kept + later)
    with pytest.raises(BrokerFailed, match="Apache Kafka has used"):
        start(1)
    kafkas.write_bytes(kept)
    for _ in range(2):
        broker = start(1)
        assert leaders(broker, "codec-zstd") == [1]
        broker.stop()
    kafkas.write_bytes(kept + later)
    with pytest.raises(BrokerFailed, match="Apache Kafka has used"):
        start(1)


def test_who_cannot_join_says_why(start, tmp_path):
    """One line each, and nothing is changed."""
    start(1)
    with pytest.raises(BrokerFailed, match=r"node\.id 1 is in use by another broker"):
        start(1, "other")
    BrokerProcess(tmp_path / "b7", {"node.id": "7"}).start().stop()
    with pytest.raises(BrokerFailed, match=r"belongs to cluster .*, the metadata store to cluster"):
        start(7)
    with pytest.raises(BrokerFailed, match=r"advertised\.listeners: must have an address"):
        start(8, listen="0.0.0.0:0")


def test_a_refused_start_leaves_nothing_that_refuses_the_next(start, tmp_path):
    """The directory is as good as new: with another node.id, and after a start without a store."""
    taken = start(1)
    with pytest.raises(BrokerFailed, match=r"node\.id 1 is in use by another broker"):
        start(1, "b2", **{"broker.session.timeout.ms": "300"})
    with pytest.raises(BrokerFailed, match="cannot listen on"):
        BrokerProcess(tmp_path / "b2", {"node.id": "7"}, listen=taken.bootstrap).start()
    assert start(2).cluster_id == taken.cluster_id


def test_a_broker_of_an_older_version_cannot_join(start):
    """It lacks a feature level of the cluster; the line says which, and what to start."""
    address = parse_store(str(start(1).settings["kwire.metadata.store"]))

    async def finalise() -> None:
        store = await open_etcd(address, 9)
        level = FeatureLevelChanged("of.the.future", 3)
        while True:
            image = await store.read()
            with suppress(RevisionConflict):
                await store.commit(image.revision, [level])
                break
        await store.close()

    trio.run(finalise)
    lacks = r"broker 2 supports of\.the\.future from 0 to 0, but the cluster has level 3; start the"
    with pytest.raises(BrokerFailed, match=lacks):
        start(2)


def test_health_names_a_missing_broker_and_a_silent_store(start, etcd, capsys):
    """Each is wrong for as long as it lasts."""
    first, second = start(1), start(2)
    asks = ["health", "-b", first.bootstrap, "--timeout", "5"]
    assert main([*asks, "--wait", "10"]) == 0
    second.kill()

    def said() -> str:
        main(asks)
        return str(capsys.readouterr().out)

    missing = f"broker 2 at {second.bootstrap} is registered but fenced"
    wait_until(lambda: missing in said(), timeout_s=10, what="the fenced broker")
    second.restart()
    assert main([*asks, "--wait", "10"]) == 0
    for member in etcd.members:
        member.pause()
    try:
        silent = "0 of 2 brokers reach it: broker 1: the metadata store"
        wait_until(lambda: silent in said(), timeout_s=10, what="the silent store")
    finally:
        for member in etcd.members:
            member.resume()
    assert main([*asks, "--wait", "20"]) == 0

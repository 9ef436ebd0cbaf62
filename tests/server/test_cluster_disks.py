"""Brokers of a cluster whose disks are wiped, swapped or copied; as processes on a real etcd."""

import shutil

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kwire.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from kwire.testing.asking import Asker
from kwire.testing.process import BrokerFailed
from kwire.testing.waiting import wait_until
from tests.server.clusters import create, leaders, metadata

pytestmark = pytest.mark.processes


def _elect(broker, topic: str, *indexes: int) -> list[int]:
    request = ElectLeadersRequest(
        election_type=1, topic_partitions=[TopicPartitions(topic=topic, partitions=list(indexes))]
    )
    answer = Asker().ask(broker.bootstrap, request, 2, ElectLeadersResponse)
    (told,) = answer.replica_election_results
    return [result.error_code for result in told.partition_result]


def test_a_wiped_disk_never_leads_silently(start, tmp_path):
    """P12: the partition has no leader until its disk is back, or its loss is accepted."""
    first, second = start(1), start(2)
    create(first, "t", 2)
    kept = wait_until(lambda: leaders(first, "t"), what="the topic")
    lost = kept.index(2)
    # Without its log, the disk that comes back would be as empty as a new one.
    wait_until((tmp_path / "b2" / f"t-{lost}").exists, what="the log on the disk")
    second.kill()
    (tmp_path / "b2").rename(tmp_path / "kept")
    second.restart()
    assert f"stay without a leader: t-{lost}; start the broker with the disk" in second.log()
    assert leaders(second, "t")[lost] == -1
    second.kill()
    shutil.rmtree(tmp_path / "b2")
    (tmp_path / "kept").rename(tmp_path / "b2")
    second.restart()
    wait_until(lambda: leaders(second, "t") == kept, what=f"a leader with its disk: {kept}")
    second.kill()
    shutil.rmtree(tmp_path / "b2")
    second.restart()
    assert leaders(second, "t")[lost] == -1
    assert _elect(first, "t", 0, 1) == [84 if at != lost else 0 for at in (0, 1)]
    wait_until(lambda: leaders(second, "t") == kept, what="the election")
    # A leader that is killed before it has made its log would look like one that has lost it.
    wait_until((tmp_path / "b2" / f"t-{lost}").is_dir, what="the new leader's log")
    second.kill()
    second.restart()
    wait_until(lambda: leaders(second, "t") == kept, what=f"a leader with its disk: {kept}")


def test_a_partition_whose_replicas_are_all_wiped_goes_on_with_a_disk_that_is_found(
    start, tmp_path
):
    """The log names it, and who does what the log says has the records again."""
    brokers = [start(1), start(2)]
    create(brokers[0], "t", 1, replicas=2)
    wait_until(lambda: -1 not in (leaders(brokers[0], "t") or [-1]), what="the topic")
    producer = Producer({"bootstrap.servers": brokers[0].bootstrap})
    producer.produce("t", b"kept")
    assert producer.flush(30) == 0
    for broker in brokers:
        broker.kill()
        broker.data_dir.rename(tmp_path / f"kept-{broker.data_dir.name}")
    for broker in brokers:
        broker.restart()
    said = "are lost, so that they stay without a leader: t-0; if a disk that has them is found"
    assert any(said in broker.log() for broker in brokers)
    assert leaders(brokers[0], "t") == [-1]
    for broker in brokers:
        broker.kill()
    shutil.rmtree(tmp_path / "b2")
    (tmp_path / "kept-b2").rename(tmp_path / "b2")
    brokers[1].restart()
    wait_until(lambda: len(metadata(brokers[1]).brokers) == 1, what="that broker 1 is fenced")
    assert leaders(brokers[1], "t") == [-1]
    assert _elect(brokers[1], "t", 0) == [0]
    wait_until(lambda: leaders(brokers[1], "t") == [2], what="the election")
    consumer = Consumer({"bootstrap.servers": brokers[1].bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    message = consumer.poll(30)
    assert message is not None
    assert message.value() == b"kept"
    consumer.close()


def test_a_copy_of_a_directory_does_not_replace_a_living_broker(start, tmp_path):
    """The copy has the same directory id, but not the lock of the old process."""
    start(1)
    shutil.copytree(tmp_path / "b1", tmp_path / "copy")
    with pytest.raises(BrokerFailed, match=r"node\.id 1 is in use by another broker"):
        start(1, "copy")

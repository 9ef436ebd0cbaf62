"""Consumers that are sent to the replica in their rack (KIP-392).

The cluster is the tests' own, as each broker is in a rack: three kwires on an etcd (``make
compat-cluster``), or with ``KWIRE_CLUSTER=kafka`` three Apache Kafkas.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.apache_kafka import KafkaCluster
from compat_tests.clients import QUIET, READ_TIMEOUT_S
from compat_tests.cluster import KwireCluster
from compat_tests.conftest import NODES
from kwire.errors import ErrorCode
from kwire.protocol.messages.fetch import (
    FetchResponse,
    PartitionData,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from kwire.testing.asking import Asker
from kwire.testing.waiting import wait_until
from tests.support.etcd import MISSING, find_etcd
from tests.support.requests import fetch_request
from tests.support.topics import create_topics

BROKERS = 3
SETTINGS = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "offsets.topic.replication.factor": "1",
    "auto.leader.rebalance.enable": "false",
}
RECORDS = 20
TOPIC = "near"
VERSION = 12

Cluster = KwireCluster | KafkaCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers, each in a rack of its own."""
    if NODES < BROKERS or os.environ.get("KWIRE_BOOTSTRAP"):
        pytest.skip("needs three brokers of its own: make compat-cluster")
    directory: Path = tmp_path_factory.mktemp("racks")
    is_kafka = os.environ.get("KWIRE_CLUSTER") == "kafka"
    if not is_kafka and find_etcd() is None:
        pytest.skip(MISSING)
    made: Cluster = (KafkaCluster if is_kafka else KwireCluster)(directory, SETTINGS)
    for node_id, broker in made.brokers.items():
        broker.settings["broker.rack"] = f"rack-{node_id}"
    with made:
        create_topics(made.bootstrap, TOPIC, replicas=3)
        producer = Producer({"bootstrap.servers": made.bootstrap, "acks": "all"}, logger=QUIET)
        for number in range(RECORDS):
            producer.produce(TOPIC, str(number).encode(), partition=0)
        assert producer.flush(READ_TIMEOUT_S) == 0
        wait_until(lambda: len(row(made).isr_nodes) == BROKERS, what="all replicas in sync")
        yield made


def row(cluster: Cluster) -> MetadataResponsePartition:
    """The only partition."""
    asker = Asker()
    try:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        answer = asker.ask(cluster.brokers[1].bootstrap, request, VERSION, MetadataResponse)
    finally:
        asker.close()
    return answer.topics[0].partitions[0]


def fetch(
    cluster: Cluster, node_id: int, rack: str, offset: int = 0, version: int = VERSION
) -> PartitionData:
    """What a broker answers to a consumer in a rack."""
    request = fetch_request(TOPIC, offset, max_wait_ms=1000, rack_id=rack)
    asker = Asker()
    try:
        answer = asker.ask(cluster.brokers[node_id].bootstrap, request, version, FetchResponse)
    finally:
        asker.close()
    return answer.responses[0].partitions[0]


def test_the_leader_names_the_replica_in_the_clients_rack(cluster: Cluster) -> None:
    """In place of records; a client in its own rack, in none or in another gets them."""
    leader = row(cluster).leader_id
    for follower in {1, 2, 3} - {leader}:

        def is_named(follower: int = follower) -> bool:
            told = fetch(cluster, leader, f"rack-{follower}")
            return told.preferred_read_replica == follower and not told.records

        wait_until(is_named, what="the nearest replica")  # once it is known to have the offset
    for rack in (f"rack-{leader}", "", "far"):
        told = fetch(cluster, leader, rack)
        assert told.preferred_read_replica == -1
        assert told.records


def test_a_follower_answers_a_consumer(cluster: Cluster) -> None:
    """Up to its high watermark; an offset that it doesn't have is out of range."""
    leader = row(cluster).leader_id
    for follower in {1, 2, 3} - {leader}:

        def has_all(follower: int = follower) -> bool:
            told = fetch(cluster, follower, "")
            return told.high_watermark == RECORDS and bool(told.records)

        wait_until(has_all, what="the high watermark")
        told = fetch(cluster, follower, "", RECORDS)
        assert (told.error_code, bool(told.records)) == (0, False)
        beyond = fetch(cluster, follower, "", RECORDS + 100)
        assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        old = fetch(cluster, follower, "", version=10)
        assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_stock_consumer_reads_everything(cluster: Cluster) -> None:
    """From whichever replica; librdkafka goes to the one that the leader names."""
    for number in range(1, BROKERS + 1):
        config = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"near-{number}",
            "client.rack": f"rack-{number}",
            "enable.auto.commit": False,
        }
        consumer = Consumer(config, logger=QUIET)
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found = [
            int(message.value())
            for message in consumer.consume(RECORDS, READ_TIMEOUT_S)
            if message.error() is None
        ]
        consumer.close()
        assert found == list(range(RECORDS))

"""Three brokers on a real etcd as stock clients see them: groups, producers, kills."""

import threading
from collections import Counter

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kwire.errors import ErrorCode
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from kwire.protocol.messages.fetch import FetchResponse
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.protocol.messages.produce import (
    ProduceResponse,
)
from kwire.testing.asking import Asker
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from tests.server.clusters import PARTITIONS, bootstrap_of, coordinator, leaders
from tests.support.records import batch
from tests.support.requests import fetch_request, produce_request

pytestmark = pytest.mark.processes

WAIT_S = 60


def test_every_broker_names_the_same_coordinators(brokers):
    """They are spread over the brokers, and other brokers refuse what isn't theirs."""
    ports = {node: int(broker.bootstrap.rpartition(":")[2]) for node, broker in brokers.items()}
    for key_type in (0, 1):
        found = {}
        for key in map(str, range(12)):
            asked = {coordinator(broker, key, key_type) for broker in brokers.values()}
            ((node, port),) = asked
            assert ports[node] == port
            found[key] = node
        assert set(found.values()) == {1, 2, 3}
    for node, broker in brokers.items():
        request = HeartbeatRequest(group_id="0", member_id="m", generation_id=1)
        answer = Asker().ask(broker.bootstrap, request, 4, HeartbeatResponse)
        at_home = node == coordinator(broker, "0")[0]
        expected = ErrorCode.UNKNOWN_MEMBER_ID if at_home else ErrorCode.NOT_COORDINATOR
        assert answer.error_code == expected


def test_every_broker_refuses_an_empty_transactional_id(brokers):
    """Nobody is its coordinator, so no other broker would have another answer."""
    coordinator(brokers[1], "tx", 1)
    for broker in brokers.values():
        request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000)
        answer = Asker().ask(broker.bootstrap, request, 4, InitProducerIdResponse)
        assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_members_that_start_together_share_the_first_generation(brokers):
    """Although they ask brokers that aren't their coordinator (decision 8)."""
    home = coordinator(brokers[1], "warm-up")[0]
    group = next(
        name for name in map(str, range(99)) if coordinator(brokers[home], name)[0] == home
    )
    others = [broker for node, broker in brokers.items() if node != home]
    for broker in (*others, *others):
        assert coordinator(broker, group)[0] == home
    answers: list[JoinGroupResponse] = []
    askers = [Asker(), Asker()]
    for asker in askers:  # both are connected before the first of them joins
        asker.ask(brokers[home].bootstrap, HeartbeatRequest(group_id="x"), 4, HeartbeatResponse)

    def join(asker: Asker) -> None:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        answers.append(asker.ask(brokers[home].bootstrap, request, 3, JoinGroupResponse))

    threads = [threading.Thread(target=join, args=(asker,)) for asker in askers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.generation_id for answer in answers] == [1, 1]
    assert sorted(len(answer.members) for answer in answers) == [0, 2]


class Sender:
    """An idempotent producer, and what was acknowledged to it."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": WAIT_S * 1000,
            }
        )

    def send(self, values: list[str]) -> None:
        """Send values, to all partitions in turn."""
        for number, value in enumerate(values):
            self._producer.produce(
                "t", value, partition=number % PARTITIONS, on_delivery=self._delivered
            )
            self._producer.poll(0)

    def _delivered(self, error: object, message) -> None:
        (self.failed if error else self.acknowledged).append(message.value().decode())

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        assert self._producer.flush(WAIT_S) == 0
        assert not self.failed


def _consumer(bootstrap: str, group: str, **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )


def _read(consumer: Consumer, count: int) -> list[str]:
    """The values of so many records; errors of a broker that is away are passing."""
    values: list[str] = []

    def enough() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
        return len(values) >= count

    wait_until(enough, timeout_s=WAIT_S, what=f"{count} records", interval_s=0)
    return values


def _committed(consumer: Consumer) -> dict[int, int]:
    """The committed offsets of the topic's partitions."""
    wanted = [TopicPartition("t", index) for index in range(PARTITIONS)]

    def found() -> dict[int, int] | None:
        try:
            rows = consumer.committed(wanted, timeout=5)
        except KafkaException:
            return None  # the coordinator is away
        return None if any(row.error for row in rows) else {r.partition: r.offset for r in rows}

    return wait_until(found, timeout_s=WAIT_S, what="the committed offsets")


def test_nothing_acknowledged_is_lost_when_the_coordinators_broker_dies(brokers):
    """P17 at RF 1: an idempotent producer and a group over three brokers, one of them killed."""
    bootstrap = bootstrap_of(brokers)
    sender = Sender(bootstrap)
    sender.send([f"a{n}" for n in range(600)])
    sender.flush()
    consumer = _consumer(bootstrap, "g")
    consumer.subscribe(["t"])
    first = _read(consumer, 600)
    consumer.commit(asynchronous=False)
    home = coordinator(brokers[1], "g")[0]
    other = brokers[home % 3 + 1]
    before = _committed(consumer)
    assert sum(before.values()) == 600

    brokers[home].kill()
    wait_until(lambda: coordinator(other, "g") == (-1, -1), what="the coordinator to be missed")
    sender.send([f"b{n}" for n in range(600)])  # a third of them waits for the broker
    brokers[home].restart()
    wait_until(lambda: coordinator(other, "g")[0] == home, what="the coordinator's return")
    sender.flush()
    assert _committed(consumer) == before
    assert sorted(_read(consumer, 600)) == sorted(f"b{n}" for n in range(600))
    consumer.commit(asynchronous=False)
    assert sum(_committed(consumer).values()) == 1200
    consumer.close()

    again = _consumer(bootstrap, "again")
    again.assign([TopicPartition("t", index, 0) for index in range(PARTITIONS)])
    stored = Counter(_read(again, 1200))
    again.close()
    assert stored == Counter([*first, *(f"b{n}" for n in range(600))])
    assert sorted(sender.acknowledged) == sorted(stored)


def test_a_broker_that_does_not_lead_names_the_leader(brokers):
    """KIP-951: Produce and Fetch; other requests just say that they are at the wrong broker."""
    found = leaders(brokers[1], "t")
    index = found.index(2)
    asked, leads = brokers[1].bootstrap, brokers[2].bootstrap
    request = produce_request("t", {index: batch((b"k", b"v"))})
    answer = Asker().ask(asked, request, 12, ProduceResponse)
    told = answer.responses[0].partition_responses[0]
    assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (told.current_leader.leader_id, told.current_leader.leader_epoch) == (2, 0)
    assert [(node.node_id, f"{node.host}:{node.port}") for node in answer.node_endpoints] == [
        (2, leads)
    ]
    topic_id = _topic_id(brokers[1])
    request = fetch_request("t", {index: 0}, topic_id=topic_id)
    fetched = Asker().ask(asked, request, 17, FetchResponse)
    row = fetched.responses[0].partitions[0]
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (row.current_leader.leader_id, fetched.node_endpoints[0].node_id) == (2, 2)
    listed = ListOffsetsTopic(
        name="t", partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1)]
    )
    offsets = Asker().ask(asked, ListOffsetsRequest(topics=[listed]), 7, ListOffsetsResponse)
    assert offsets.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def _topic_id(broker: BrokerProcess) -> bytes:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    return Asker().ask(broker.bootstrap, request, 12, MetadataResponse).topics[0].topic_id


def test_the_controller_is_the_leader_of_the_quorum(brokers):
    """Its voters are the brokers, each with a directory of its own."""
    wanted = DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata",
        partitions=[DescribeQuorumRequestPartitionData(partition_index=0)],
    )
    for broker in brokers.values():
        request = DescribeQuorumRequest(topics=[wanted])
        answer = Asker().ask(broker.bootstrap, request, 2, DescribeQuorumResponse)
        cluster = Asker().ask(
            broker.bootstrap, DescribeClusterRequest(endpoint_type=1), 2, DescribeClusterResponse
        )
        told = answer.topics[0].partitions[0]
        assert told.leader_id == cluster.controller_id
        assert told.leader_epoch >= 1
        assert [voter.replica_id for voter in told.current_voters] == [1, 2, 3]
        assert len({voter.replica_directory_id for voter in told.current_voters} - {bytes(16)}) == 3
        older = Asker().ask(broker.bootstrap, request, 1, DescribeQuorumResponse)
        assert older.topics[0].partitions[0].leader_id == told.leader_id
        assert [node.node_id for node in answer.nodes] == [1, 2, 3]

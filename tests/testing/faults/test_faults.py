"""Which requests meet a fault, and what a test learns of it."""

import threading
import time

import pytest
from confluent_kafka.admin import AdminClient

from kwire.errors import ErrorCode
from kwire.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.record.records import Record, build_batch
from kwire.testing import Kafka
from kwire.testing.faults.planning import NotObserved
from tests.support.in_process import RawClient
from tests.testing.faults.stock import send


async def connect(kafka: Kafka, client_id: str = "raw") -> RawClient:
    """A raw connection."""
    import trio

    host, _, port = kafka.bootstrap.rpartition(":")
    return RawClient(await trio.open_tcp_stream(host, int(port)), client_id)


def produce_request(*partitions: int, acks: int = -1) -> ProduceRequest:
    """One record for each of these partitions of ``orders``."""
    records = bytes(build_batch([Record(0, 0, None, b"v")]))
    data = [PartitionProduceData(index=index, records=records) for index in partitions]
    topics = [TopicProduceData(name="orders", partition_data=data)]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def fetch_request(*partitions: int, wait_ms: int = 0) -> FetchRequest:
    """A fetch of ``orders`` from its start."""
    wanted = [FetchPartition(partition=p, partition_max_bytes=1000) for p in partitions]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1000,
        topics=[FetchTopic(topic="orders", partitions=wanted)],
    )


def test_only_one_client_is_concerned(kafka: Kafka) -> None:
    """By its client id."""
    kafka.topic("orders")
    with kafka.faults.fail("Produce", client_id="bad", error="TOPIC_AUTHORIZATION_FAILED"):
        assert send(kafka, **{"client.id": "good"}) is None
        assert send(kafka, **{"client.id": "bad"}) is not None


async def test_only_one_partition_is_concerned(kafka: Kafka) -> None:
    """The other partitions of the same request are served."""
    kafka.topic("orders", partitions=3)
    client = await connect(kafka)
    with kafka.faults.fail("Produce", topic="orders", partition=1, error="NOT_LEADER_OR_FOLLOWER"):
        answer = await client.request(produce_request(0, 1, 2), 9, ProduceResponse)
        [topic] = answer.responses
        told = {p.index: (p.error_code, p.base_offset) for p in topic.partition_responses}
        assert told == {0: (0, 0), 1: (6, -1), 2: (0, 0)}
    with kafka.faults.fail("Fetch", partition=2, error="KAFKA_STORAGE_ERROR"):
        fetched = await client.request(fetch_request(0, 1, 2, wait_ms=9000), 11, FetchResponse)
        [fetched_topic] = fetched.responses
        told_of = {
            p.partition_index: (p.error_code, bool(p.records)) for p in fetched_topic.partitions
        }
        assert told_of == {0: (0, True), 1: (0, False), 2: (56, False)}
    await client.aclose()


async def test_a_fetch_session_ends_where_an_error_is_planned(kafka: Kafka) -> None:
    """The client names its partitions again, and gets no session until the fault is over."""
    kafka.topic("orders")
    client = await connect(kafka)
    first = fetch_request(0)
    first.session_epoch = 0
    session = (await client.request(first, 11, FetchResponse)).session_id
    assert session
    incremental = FetchRequest(session_id=session, session_epoch=1, max_bytes=1000)
    with kafka.faults.fail("Fetch", topic="orders", error="NOT_LEADER_OR_FOLLOWER"):
        answer = await client.request(incremental, 11, FetchResponse)
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        answer = await client.request(first, 11, FetchResponse)
        assert answer.session_id == 0
        assert answer.responses[0].partitions[0].error_code == 6
    assert (await client.request(first, 11, FetchResponse)).session_id
    await client.aclose()


async def test_metadata_of_a_topic_fails(kafka: Kafka) -> None:
    """The others, and the brokers, are told as ever."""
    kafka.topic("orders", partitions=2)
    kafka.topic("other")
    client = await connect(kafka)
    everything = MetadataRequest(topics=None)
    with kafka.faults.fail("Metadata", topic="orders", error="LEADER_NOT_AVAILABLE") as fault:
        answer = await client.request(everything, 9, MetadataResponse)
        assert {t.name: t.error_code for t in answer.topics} == {"orders": 5, "other": 0}
        assert len(answer.brokers) == 1
        named = MetadataRequest(topics=[MetadataRequestTopic(name="other")])
        answer = await client.request(named, 9, MetadataResponse)
        assert (answer.topics[0].error_code, fault.count) == (0, 1)
    with kafka.faults.fail("Metadata", topic="orders", partition=1, error="LEADER_NOT_AVAILABLE"):
        answer = await client.request(everything, 9, MetadataResponse)
        [orders] = [topic for topic in answer.topics if topic.name == "orders"]
        assert orders.error_code == 0
        assert {p.partition_index: p.error_code for p in orders.partitions} == {0: 0, 1: 5}
    await client.aclose()


async def test_a_delay_before_and_after(kafka: Kafka) -> None:
    """Before: nothing is written until it is over. After: the record is there, its answer isn't."""
    kafka.topic("orders")
    client = await connect(kafka)
    with kafka.faults.delay("Produce", seconds=0.05, times=1):
        begun = time.monotonic()
        await client.request(produce_request(0), 9, ProduceResponse)
        assert time.monotonic() - begun >= 0.05
    slow = kafka.faults.delay("Produce", seconds=60, after=True)
    await client.send(produce_request(0), 9)
    slow.wait_until_observed()
    await kafka.wait_for_records_async("orders", 2)
    slow.remove()
    await client.aclose()


async def test_a_fetch_that_waits_is_carried_out_before_its_connection_is_cut(
    kafka: Kafka,
) -> None:
    """A long poll under a fault "after" waits for records as ever."""
    kafka.topic("orders")
    client = await connect(kafka)
    with kafka.faults.cut("Fetch", after=True, times=1) as fault:
        await client.send(fetch_request(0, wait_ms=60_000), 11)
        fault.wait_until_observed()
        kafka.produce("orders", ["a"])
        assert await client.is_closed()
    await client.aclose()


async def test_requests_behind_a_swallowed_one_wait(kafka: Kafka) -> None:
    """Responses never come out of order; other connections are served, and the stop is quick."""
    kafka.topic("orders")
    with kafka.faults.drop("Produce") as fault:
        client = await connect(kafka)
        await client.send(produce_request(0), 9)
        fault.wait_until_observed()
        other = await connect(kafka)
        await other.request(MetadataRequest(topics=None), 9, MetadataResponse)
        await other.aclose()
    await client.send(MetadataRequest(topics=None), 9)
    kafka.restart()
    assert await client.is_closed()
    assert kafka.records("orders") == []


async def test_a_produce_without_a_response_loses_its_connection(kafka: Kafka) -> None:
    """With acks=0 no error can be told, so Kafka closes the connection."""
    kafka.topic("orders")
    client = await connect(kafka)
    with kafka.faults.fail("Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER"):
        await client.send(produce_request(0, acks=0), 9)
        assert await client.is_closed()
    assert kafka.records("orders") == []


async def test_an_api_without_topics(kafka: Kafka) -> None:
    """The error stands where the response has its place for it."""
    client = await connect(kafka)
    with kafka.faults.fail("Heartbeat", error="FENCED_INSTANCE_ID"):
        answer = await client.request(HeartbeatRequest(group_id="g"), 4, HeartbeatResponse)
    assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID
    await client.aclose()


def test_every_api_of_a_client(kafka: Kafka) -> None:
    """``*`` stands for all APIs; a fault by topic leaves requests without topics alone."""
    kafka.topic("orders")
    with kafka.faults.delay(seconds=0.01, client_id="slow") as fault:
        AdminClient({"bootstrap.servers": kafka.bootstrap, "client.id": "slow"}).list_topics()
        assert fault.count > 1
    with kafka.faults.cut(topic="orders", times=1) as fault:
        assert send(kafka) is None
    assert fault.count == 1


def test_a_fault_that_nobody_met_fails_the_test(kafka: Kafka) -> None:
    """A test of an error path that was never taken must not pass."""
    with (
        pytest.raises(NotObserved, match=r"fail with NOT_COORDINATOR\(Heartbeat\)"),
        kafka.faults.fail("Heartbeat", error="NOT_COORDINATOR"),
    ):
        pass
    fault = kafka.faults.drop("Heartbeat")
    assert not fault.observed
    with pytest.raises(NotObserved):
        fault.must_be_observed()
    with pytest.raises(NotObserved, match="waited 0 s for 1 times"):
        fault.wait_until_observed(timeout_s=0)


def test_a_failing_block_keeps_its_own_error(kafka: Kafka) -> None:
    """The fault that wasn't met is no news then."""
    with pytest.raises(ZeroDivisionError), kafka.faults.drop("Heartbeat"):
        raise ZeroDivisionError


def test_faults_come_in_the_order_of_their_planning(kafka: Kafka) -> None:
    """One fault for each request; a fault that is used up leaves the next its turn."""
    kafka.topic("orders")
    first = kafka.faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=1)
    second = kafka.faults.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", times=1)
    assert send(kafka) is not None
    assert (first.count, second.count) == (1, 1)
    assert send(kafka) is None


def test_faults_outlive_a_restart(kafka: Kafka) -> None:
    """They belong to the test, not to the run of the broker."""
    kafka.topic("orders")
    with kafka.faults.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED"):
        kafka.restart()
        assert send(kafka) is not None


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({"api": "Produced", "error": "NOT_COORDINATOR"}, "no API 'Produced'; there is Produce"),
        ({"api": "Produce", "error": "NOT_LEADER"}, "no error 'NOT_LEADER'; there is NOT_LEADER_O"),
        ({"api": "Heartbeat", "error": "NOT_COORDINATOR", "topic": "o"}, "name no topics"),
        ({"api": "CreateTopics", "error": "NOT_CONTROLLER", "partition": 1}, "name no partitions"),
        ({"api": "Produce", "error": "NOT_COORDINATOR", "times": 0}, "times=0"),
        ({"api": "*", "error": "NOT_COORDINATOR"}, "one API"),
    ],
)
def test_a_fault_that_can_never_happen_is_refused(plan: dict[str, str], why: str) -> None:
    """With the names that were probably meant."""
    with pytest.raises(ValueError, match=why.replace("*", r"\*")):
        Kafka().faults.fail(**plan)  # type: ignore[arg-type]


def test_no_request_of_the_helpers_meets_a_fault(kafka: Kafka) -> None:
    """They are the test's own, and count for nothing."""
    fault = kafka.faults.cut()
    kafka.topic("orders", records=["a"])
    assert kafka.describe()
    assert not fault.observed


def test_two_brokers_have_faults_of_their_own(kafka: Kafka) -> None:
    """In one process."""
    with Kafka() as other:
        kafka.topic("orders")
        other.topic("orders")
        with kafka.faults.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED"):
            assert send(other) is None
            assert send(kafka) is not None


def test_a_fault_may_be_planned_while_another_thread_works(kafka: Kafka) -> None:
    """A client under load meets it at once."""
    kafka.topic("orders")
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            send(kafka)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        kafka.faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2).wait_until_observed(2)
    finally:
        stop.set()
        worker.join()

"""What producers are told in every state, code by code: the same on kwire and on Apache Kafka.

The requests are single messages; what only passes (a coordinator that loads, markers that are under
way) is tried again, everything else is noted.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
import trio

from compat_tests.conftest import Names
from compat_tests.raw_client import RawClient
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from kwire.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kwire.protocol.messages.produce import (
    ProduceResponse,
)
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kwire.protocol.types import Request, Response
from kwire.record.records import BatchBuilder, ProducerState
from tests.support.raw_producer import RawProducer
from tests.support.requests import produce_request
from tests.support.topics import create_topics

PASSING = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
TIMEOUT_S = 60
MAX = 2**31 - 1

_R = TypeVar("_R", bound=Response)


async def outcome(operation: Callable[[], Awaitable[object]]) -> str:
    """``ok``, or the error that doesn't pass."""
    while True:
        try:
            await operation()
        except KafkaError as error:
            if error.code not in PASSING:
                return error.code.name
            await trio.lowlevel.checkpoint()
            continue
        return "ok"


class Client:
    """A raw client as RawProducer uses it."""

    def __init__(self, raw: RawClient) -> None:
        self._raw = raw

    async def request(self, request: Request, version: int, response: type[_R]) -> _R:
        """Ask; the other tasks wait, too."""
        await trio.lowlevel.checkpoint()
        answer = self._raw.ask(request, version)
        assert isinstance(answer, response)
        return answer


class Case:
    """A topic, and producers of one transactional id on connections of their own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic

    async def client(self) -> Client:
        """A client with connections of its own."""
        return Client(RawClient(self.bootstrap))

    async def wait_for_topic(self) -> None:
        """Wait until both partitions are led."""
        client = await self.client()
        for index in (0, 1):
            asked = TopicRequest(name=self.topic, partition_indexes=[index])
            request = DescribeProducersRequest(topics=[asked])
            while True:
                answer = await client.request(request, 0, DescribeProducersResponse)
                if not answer.topics[0].partitions[0].error_code:
                    break

    async def producer(self, *, bumps: bool = True, begins: bool = True) -> RawProducer:
        """A producer, which has begun."""
        producer = RawProducer(await self.client(), self.topic, bumps=bumps)
        if begins:
            assert await outcome(producer.init) == "ok"
        return producer

    async def end(self, producer: RawProducer, what: str, *, epoch: int = 0) -> str:
        """Commit or abort, with an epoch that lies so far from the producer's own."""
        request = EndTxnRequest(
            transactional_id=self.topic,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch + epoch,
            committed=what == "commit",
        )

        async def ask() -> None:
            version = 5 if producer.bumps else 4
            answer = await producer.client.request(request, version, EndTxnResponse)
            if answer.error_code:
                raise KafkaError(ErrorCode(answer.error_code))
            if producer.bumps:
                producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch

        return await outcome(ask)


@pytest.fixture
def case(bootstrap: str, names: Names) -> Case:
    """A case with a new topic of two partitions."""
    topic = names.topic("errors")
    create_topics(bootstrap, topic, partitions=2)
    made = Case(bootstrap, topic)
    run(made.wait_for_topic)
    return made


def run(script: Callable[[], Awaitable[None]]) -> None:
    """Run a script, within a minute."""

    async def limited() -> None:
        with trio.fail_after(TIMEOUT_S):
            await script()

    trio.run(limited)


def test_the_newer_protocol(case: Case) -> None:
    """The table of KIP-890: ends at rest, repeated and current."""

    async def script() -> None:
        producer = await case.producer()
        seen = [await case.end(producer, "commit"), await case.end(producer, "commit", epoch=-1)]
        seen += [await case.end(producer, "abort", epoch=-1), await case.end(producer, "abort")]
        assert seen == ["INVALID_TXN_STATE", "PRODUCER_FENCED", "PRODUCER_FENCED", "ok"]
        assert producer.epoch == 1
        assert await case.end(producer, "commit") == "INVALID_TXN_STATE"
        assert await case.end(producer, "commit", epoch=-1) == "INVALID_TXN_STATE"
        assert await case.end(producer, "abort", epoch=-1) == "ok"
        assert producer.epoch == 1
        assert await outcome(lambda: producer.produce(case.topic, 0, b"v")) == "ok"
        assert await case.end(producer, "commit") == "ok"
        assert producer.epoch == 2
        assert await case.end(producer, "abort", epoch=-1) == "INVALID_TXN_STATE"
        assert await case.end(producer, "commit", epoch=-1) == "ok"
        assert producer.epoch == 2
        assert await case.end(producer, "commit", epoch=5) == "PRODUCER_FENCED"
        assert await case.end(producer, "abort") == "ok"
        assert producer.epoch == 3

    run(script)


def test_the_first_protocol(case: Case) -> None:
    """Ends that are repeated, and with nothing to end."""

    async def script() -> None:
        producer = await case.producer(bumps=False)
        assert await case.end(producer, "commit") == "INVALID_TXN_STATE"
        assert await case.end(producer, "abort") == "INVALID_TXN_STATE"
        assert await outcome(lambda: producer.add(case.topic, 0)) == "ok"
        assert await case.end(producer, "commit", epoch=1) == "PRODUCER_FENCED"
        assert await case.end(producer, "commit") == "ok"
        assert await case.end(producer, "commit") == "ok"
        assert await case.end(producer, "abort") == "INVALID_TXN_STATE"
        assert producer.epoch == 0
        assert await outcome(lambda: producer.produce(case.topic, 0, b"v", version=10)) == (
            "INVALID_TXN_STATE"
        )
        assert await outcome(lambda: producer.produce(case.topic, 0, b"v", version=11)) == (
            "TRANSACTION_ABORTABLE"
        )
        assert await outcome(lambda: producer.add("unknown-topic", 0)) == (
            "UNKNOWN_TOPIC_OR_PARTITION"
        )

    run(script)


@pytest.mark.parametrize("bumps", [True, False], ids=["newer", "first"])
def test_a_producer_that_is_fenced(case: Case, bumps: bool) -> None:
    """Its epoch is over everywhere; the epochs that it lost are the same on both brokers."""

    async def script() -> None:
        producer = await case.producer(bumps=bumps)
        if not bumps:
            await producer.add(case.topic, 0)
        assert await outcome(lambda: producer.produce(case.topic, 0, b"v")) == "ok"
        successor = await case.producer(bumps=bumps)
        assert successor.epoch == 2
        assert await outcome(lambda: producer.produce(case.topic, 0, b"v")) == (
            "INVALID_PRODUCER_EPOCH"
        )
        assert await outcome(lambda: producer.produce(case.topic, 1, b"v")) == (
            "INVALID_PRODUCER_EPOCH"
        )
        assert await outcome(lambda: producer.add(case.topic, 1)) == "PRODUCER_FENCED"
        assert await case.end(producer, "commit") == "PRODUCER_FENCED"
        assert await outcome(lambda: producer.init(goes_on=True)) == "PRODUCER_FENCED"
        assert await outcome(lambda: successor.init(goes_on=True)) == "ok"
        assert successor.epoch == 3
        successor.epoch = 2
        assert await outcome(lambda: successor.init(goes_on=True)) == "ok"
        assert successor.epoch == 3

    run(script)


def test_who_is_not_known(case: Case) -> None:
    """Ids that nobody has, half identities, timeouts out of bounds."""

    async def script() -> None:
        producer = await case.producer(begins=False)
        await case.producer()
        producer.producer_id, producer.epoch = 987_654, 0
        assert await outcome(lambda: producer.add(case.topic, 0)) == "INVALID_PRODUCER_ID_MAPPING"
        assert await case.end(producer, "abort") == "INVALID_PRODUCER_ID_MAPPING"
        code = await outcome(lambda: producer.produce(case.topic, 0, b"v"))
        assert code == "INVALID_PRODUCER_ID_MAPPING"
        assert await outcome(lambda: producer.init(goes_on=True)) == "PRODUCER_FENCED"
        for timeout_ms in (0, 900_001):
            code = await outcome(lambda timeout_ms=timeout_ms: producer.init(timeout_ms=timeout_ms))
            assert code == "INVALID_TRANSACTION_TIMEOUT"
        for name, producer_id in (("", -1), (case.topic, 5)):
            request = InitProducerIdRequest(
                transactional_id=name, transaction_timeout_ms=1000, producer_id=producer_id
            )
            answer = await producer.client.request(request, 4, InitProducerIdResponse)
            assert ErrorCode(answer.error_code) is ErrorCode.INVALID_REQUEST

    run(script)


def test_offsets_of_a_transaction(case: Case) -> None:
    """Who may commit for a group, and for what."""

    async def script() -> None:
        producer, group = await case.producer(), f"{case.topic}-group"
        find = FindCoordinatorRequest(coordinator_keys=[group])
        await producer.client.request(find, 4, FindCoordinatorResponse)
        commit = producer.commit_offset
        assert await outcome(lambda: commit(group, case.topic, 0, 1)) == "ok"
        assert await outcome(lambda: commit("", case.topic, 0, 1)) == "INVALID_GROUP_ID"
        assert await outcome(lambda: commit(group, "unknown-topic", 0, 1)) == (
            "UNKNOWN_TOPIC_OR_PARTITION"
        )
        member = {"generation_id_or_member_epoch": 3, "member_id": "nobody"}
        unknown = f"{group}-unknown"
        assert await outcome(lambda: commit(unknown, case.topic, 0, 1, **member)) == (
            "ILLEGAL_GENERATION"
        )
        assert await case.end(producer, "commit") == "ok"
        older = await case.producer(bumps=False)
        assert await outcome(lambda: older.commit_offset(group, case.topic, 0, 2)) == (
            "TRANSACTION_ABORTABLE"
        )

    run(script)


def test_sequences(case: Case) -> None:
    """Gaps, repetitions, epochs and the wrap of an idempotent producer."""

    async def script() -> None:
        client = await case.client()

        async def append(producer_id: int, epoch: int, sequence: int, records: int = 1) -> int:
            builder = BatchBuilder()
            for _ in range(records):
                builder.add(0, None, b"v")
            batch = builder.build(producer=ProducerState(producer_id, epoch, sequence))
            request = produce_request(case.topic, bytes(batch))
            answer = await client.request(request, 9, ProduceResponse)
            [partition] = answer.responses[0].partition_responses
            return -partition.error_code if partition.error_code else partition.base_offset

        while await append(1, 0, 0) < 0:
            await trio.lowlevel.checkpoint()
        disorder, old = -ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -ErrorCode.INVALID_PRODUCER_EPOCH
        seen = [await append(1, 0, sequence) for sequence in (2, 1, 2, 3, 4, 5)]
        assert seen == [disorder, 1, 2, 3, 4, 5]
        # The last five are known, and no more.
        assert [await append(1, 0, sequence) for sequence in (5, 1, 0)] == [5, 1, disorder]
        assert await append(1, 0, 4, records=2) == disorder
        assert [await append(1, 1, 5), await append(1, 1, 0)] == [disorder, 6]
        assert await append(1, 0, 6) == old
        # Nobody knows this one: it may begin anywhere.
        assert [await append(2, 3, MAX - 1, records=3), await append(2, 3, 1)] == [7, 10]
        assert await append(2, 3, MAX - 1, records=3) == 7
        assert await append(2, 3, 0) == disorder

    run(script)


def test_markers(case: Case) -> None:
    """Which ones a partition takes that somebody else sends, by their epochs and versions."""

    async def script() -> None:
        producer = await case.producer()
        assert await outcome(lambda: producer.produce(case.topic, 0, b"v")) == "ok"

        async def mark(epoch: int, coordinator_epoch: int, version: int, index: int = 0) -> str:
            topic = WritableTxnMarkerTopic(name=case.topic, partition_indexes=[index])
            marker = WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=epoch,
                coordinator_epoch=coordinator_epoch,
                transaction_version=version,
                topics=[topic],
            )
            request = WriteTxnMarkersRequest(markers=[marker])
            answer = await producer.client.request(request, 2, WriteTxnMarkersResponse)
            return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code).name

        assert await mark(0, 0, 2) == "INVALID_PRODUCER_EPOCH"
        assert await mark(0, 3, 0) == "NONE"
        assert await mark(0, 2, 0) == "TRANSACTION_COORDINATOR_FENCED"
        assert await mark(0, 3, 2) == "NONE"
        assert await mark(2, 3, 2) == "NONE"
        assert await mark(1, 3, 0) == "INVALID_PRODUCER_EPOCH"
        assert await mark(2, 3, 2, index=9) == "UNKNOWN_TOPIC_OR_PARTITION"
        # The partition knows the epoch of the last marker now.
        assert await outcome(lambda: producer.produce(case.topic, 0, b"v")) == (
            "INVALID_PRODUCER_EPOCH"
        )

    run(script)

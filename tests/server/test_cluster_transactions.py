"""Transactions over three brokers on a real etcd: markers and checks among brokers, and kills."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.produce import ProduceRequest
from kwire.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.protocol.types import Request
from kwire.testing.asking import Asker
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from tests.server.clusters import PARTITIONS, bootstrap_of, coordinator, leaders
from tests.support.raw_producer import RawProducer

pytestmark = pytest.mark.processes

WAIT_S = 60
GROUP, TRANSACTION = 0, 1
PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class Router:
    """Sends each request of a transactional producer to the broker that serves it."""

    def __init__(self, brokers: dict[int, BrokerProcess], transactional_id: str) -> None:
        any_broker = next(iter(brokers.values()))
        self._brokers = brokers
        self._home = coordinator(any_broker, transactional_id, TRANSACTION)[0]
        self._leaders = leaders(any_broker, "t")
        self._askers = {node_id: Asker() for node_id in brokers}

    async def request(self, request: Request, version: int, response: type) -> object:
        """Ask, and wait for the answer."""
        node_id = self._home
        if isinstance(request, ProduceRequest):
            node_id = self._leaders[request.topic_data[0].partition_data[0].index]
        elif isinstance(request, TxnOffsetCommitRequest):
            node_id = coordinator(self._brokers[self._home], request.group_id)[0]
        return self._askers[node_id].ask(
            self._brokers[node_id].bootstrap, request, version, response
        )

    def close(self) -> None:
        """Close all connections."""
        for asker in self._askers.values():
            asker.close()


def _again(step: Callable[[], Awaitable[object]]) -> None:
    """Take a step of a producer, again while the error is a passing one."""

    def done() -> bool:
        async def run() -> None:
            await step()

        try:
            trio.run(run)
        except KafkaError as error:
            if error.code not in PASSING:
                raise
            return False
        return True

    wait_until(done, what="a step of the transaction")


def _consumer(brokers: dict[int, BrokerProcess], group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_of(brokers),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )


def _read(brokers: dict[int, BrokerProcess], count: int) -> list[str]:
    """So many committed records of all partitions, sorted."""
    consumer = _consumer(brokers, "reader")
    consumer.assign([TopicPartition("t", index, 0) for index in range(PARTITIONS)])
    values: list[str] = []

    def enough() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
        return len(values) >= count

    wait_until(enough, timeout_s=WAIT_S, what=f"{count} committed records", interval_s=0)
    consumer.close()
    return sorted(values)


@pytest.mark.parametrize("bumps", [True, False])
def test_a_transaction_spans_brokers(brokers, bumps):
    """Records on every broker and offsets of groups on any: all or none, with both protocols."""
    router = Router(brokers, "tx")
    producer = RawProducer(router, "tx", bumps=bumps)
    _again(producer.init)
    groups = ["g0", "g1", "g2"]
    for name, committed in (("a", True), ("b", False), ("c", True)):
        for index in range(PARTITIONS):
            if not bumps:
                _again(lambda i=index: producer.add("t", i))
            for number in range(2):
                value = f"{name}{index}-{number}".encode()
                _again(lambda i=index, v=value: producer.produce("t", i, v))
        for group in groups:
            if not bumps:
                _again(lambda g=group: producer.add_offsets(g))
            offset = {"a": 1, "b": 2, "c": 3}[name]
            _again(lambda g=group, o=offset: producer.commit_offset(g, "t", 0, o))
        _again(lambda c=committed: producer.end(committed=c))
    router.close()
    expected = [f"{n}{i}-{j}" for n in "ac" for i in range(PARTITIONS) for j in range(2)]
    assert _read(brokers, len(expected)) == sorted(expected)
    for group in groups:
        consumer = _consumer(brokers, group)
        (found,) = consumer.committed([TopicPartition("t", 0)], timeout=WAIT_S)
        assert found.offset == 3
        consumer.close()


def test_a_write_that_was_not_added_is_refused(brokers):
    """Also by a broker that has to ask the coordinator."""
    router = Router(brokers, "tx")
    producer = RawProducer(router, "tx", bumps=False)
    _again(producer.init)
    for index in range(PARTITIONS):
        with pytest.raises(KafkaError) as refused:
            _again(lambda i=index: producer.produce("t", i, b"v"))
        assert refused.value.code is ErrorCode.TRANSACTION_ABORTABLE
    router.close()


def _commit(producer: Producer) -> None:
    """Commit, again while the coordinator's broker is away."""

    def done() -> bool:
        try:
            producer.commit_transaction(5)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            return False
        return True

    wait_until(done, timeout_s=WAIT_S, what="the commit")


@pytest.mark.parametrize("dies", ["coordinator", "leader"])
def test_a_transaction_outlives_its_brokers(brokers, dies):
    """S19: a stock producer's transaction is whole although a broker dies before its end."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_of(brokers),
            "transactional.id": "stock",
            "transaction.timeout.ms": WAIT_S * 1000,
        }
    )
    producer.init_transactions(WAIT_S)
    home = coordinator(brokers[1], "stock", TRANSACTION)[0]
    doomed = brokers[home if dies == "coordinator" else home % 3 + 1]
    alive = next(broker for broker in brokers.values() if broker is not doomed)
    for name in ("a", "b"):
        producer.begin_transaction()
        for index in range(PARTITIONS):
            producer.produce("t", f"{name}{index}", partition=index)
        assert producer.flush(WAIT_S) == 0
        if name == "b":
            doomed.kill()
            wait_until(lambda: -1 in leaders(alive, "t"), what="fencing")
            if dies == "leader":
                _commit(producer)  # decided now; markers follow when the leader is back
            doomed.restart()
        if name == "a" or dies == "coordinator":
            _commit(producer)
    expected = sorted(f"{name}{index}" for name in "ab" for index in range(PARTITIONS))
    assert _read(brokers, len(expected)) == expected

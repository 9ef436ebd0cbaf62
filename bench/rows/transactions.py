"""Rows of exactly-once: committed transactions.

A transaction is one batch of 100 records of 1 KB and its end, by the newer protocol (Produce 12 and
EndTxn 5). A producer sends its transactions on one connection, one after the other. In Apache Kafka
the first batch of a transaction often waits for the markers of the transaction before
(add.partitions.to.txn.retry.backoff.ms). Several producers wait at the same time.
"""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.load import ask, frame_of, read_response
from bench.rows.common import (
    GENERATOR_IS_LIMIT,
    Row,
    Running,
    create_topic,
    delete_topic,
    next_offset,
    produce_request,
)
from kwire.errors import ErrorCode
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.types import Request
from kwire.record.records import BatchBuilder, ProducerState

RECORDS, RECORD_BYTES = 100, 1000
PRODUCE_VERSION, END_VERSION, INIT_VERSION = 12, 5, 5
TRANSACTION_KEY_TYPE = 1
RETRY_S = 0.001
STILL_ENDING = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS)


class Committer:
    """A transactional producer on one connection."""

    def __init__(self, bootstrap: str, topic: str, transactional_id: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._connection = socket.create_connection((host, int(port)), timeout=30)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._topic = topic
        self._transactional_id = transactional_id
        builder = BatchBuilder()
        for _ in range(RECORDS):
            builder.add(int(time.time() * 1000), None, bytes(RECORD_BYTES))
        self._builder = builder
        find = FindCoordinatorRequest(
            key_type=TRANSACTION_KEY_TYPE, coordinator_keys=[transactional_id]
        )
        while ask(bootstrap, find, 4).coordinators[0].error_code:
            time.sleep(0.1)
        init = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=60_000
        )
        while (begun := self._ask(init, INIT_VERSION)).error_code:
            time.sleep(0.1)
        self._producer_id, self._epoch = begun.producer_id, begun.producer_epoch

    def _ask(self, request: Request, version: int) -> Any:
        self._connection.sendall(frame_of(request, version))
        return read_response(self._connection, request, version)

    def transact(self, *, committed: bool = True) -> None:
        """Make one transaction, from its first record to the response to its end."""
        state = ProducerState(self._producer_id, self._epoch, 0)
        batch = self._builder.build(producer=state, transactional=True)
        data = PartitionProduceData(index=0, records=bytes(batch))
        produce = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )
        while code := self._produced(produce):
            # The broker is still writing the markers of the transaction before.
            assert code in STILL_ENDING, code
            time.sleep(RETRY_S)
        end = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=committed,
        )
        ended = self._ask(end, END_VERSION)
        assert ended.error_code == 0, ended
        self._producer_id, self._epoch = ended.producer_id, ended.producer_epoch

    def _produced(self, request: ProduceRequest) -> int:
        answer = self._ask(request, PRODUCE_VERSION)
        return int(answer.responses[0].partition_responses[0].error_code)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def commit_until(self, ends_at: float) -> int:
        """Make transactions until a time, then close the connection; returns their number."""
        count = 0
        with self._connection:
            while time.monotonic() < ends_at:
                self.transact()
                count += 1
        return count


def transactions_row(name: str, producers: int) -> Row:
    """A row for committed transactions per second, by concurrent producers."""

    def measure(running: Running) -> float:
        bootstrap = running.broker.bootstrap
        topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}")
        next_offset(bootstrap, produce_request(topic, 1, 1))
        committers = [Committer(bootstrap, topic, f"{topic}-{n}") for n in range(producers)]
        with ThreadPoolExecutor(producers) as pool:
            started, cpu_before = time.monotonic(), time.process_time()
            ends_at = started + running.seconds
            count = sum(pool.map(lambda committer: committer.commit_until(ends_at), committers))
            spent_s = time.monotonic() - started
        if time.process_time() - cpu_before > GENERATOR_IS_LIMIT * spent_s:
            running.limited.add(name)
        delete_topic(bootstrap, topic)
        return count / spent_s

    return Row(name, "tx/s", True, measure, name)


TRANSACTION_ROWS: list[Row] = [
    transactions_row("transactions of 100 x 1 KB", 1),
    transactions_row("transactions of 100 x 1 KB, 8 producers", 8),
]

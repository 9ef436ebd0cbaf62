"""Workers behind a port mapping: what they advertise is for clients, not for each other."""

from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kwire.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kwire.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.testing.asking import Asker
from kwire.testing.waiting import wait_until
from tests.server.clusters import coordinator, create, leaders
from tests.workers.test_processes import At

OUTER_HOST, OUTER_PORT = "127.0.0.9", 1
"""Nobody listens there, as at the outer side of a mapping that this machine can't use itself."""


def test_a_transaction_over_both_workers_ends_behind_a_port_mapping(start):
    """Its coordinator reaches the other worker, and clients are told the outer addresses only."""
    workers = start(advertised_listeners=f"PLAINTEXT://{OUTER_HOST}:{OUTER_PORT}")
    first = At(workers.addresses[0])
    told = Asker().ask(workers.addresses[1], MetadataRequest(topics=None), 12, MetadataResponse)
    assert [(node.host, node.port) for node in told.brokers] == [(OUTER_HOST, 1), (OUTER_HOST, 2)]
    create(first, "t", 2)
    wait_until(lambda: sorted(leaders(first, "t")) == [1, 2], what="the topic")
    wait_until(lambda: coordinator(first, "tx", 1)[0] > 0, what="the coordinator")
    address = workers.addresses[coordinator(first, "tx", 1)[0] - 1]
    init = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)

    def began() -> InitProducerIdResponse | None:
        answer = Asker().ask(address, init, 4, InitProducerIdResponse)
        return None if answer.error_code else answer

    producer = wait_until(began, what="the producer id")
    names = ("tx", producer.producer_id, producer.producer_epoch)
    adding = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=names[0],
        v3_and_below_producer_id=names[1],
        v3_and_below_producer_epoch=names[2],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
    )
    (added,) = (
        Asker().ask(address, adding, 3, AddPartitionsToTxnResponse)
    ).results_by_topic_v3_and_below
    assert [one.partition_error_code for one in added.results_by_partition] == [0, 0]
    end = EndTxnRequest(
        transactional_id=names[0], producer_id=names[1], producer_epoch=names[2], committed=True
    )
    assert Asker().ask(address, end, 3, EndTxnResponse).error_code == 0
    describe = DescribeTransactionsRequest(transactional_ids=["tx"])

    def is_complete() -> bool:
        answer = Asker().ask(address, describe, 0, DescribeTransactionsResponse)
        return answer.transaction_states[0].transaction_state == "CompleteCommit"

    wait_until(is_complete, what="the markers in both partitions")

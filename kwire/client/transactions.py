"""Transactions: list those of all coordinators, describe, end; the producers of partitions."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kwire.client.cluster import TRANSACTION, Cluster, check
from kwire.client.leaders import TopicPartition, ask_leaders
from kwire.client.offsets import by_topic
from kwire.client.transactional_producer import init_producer_id
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from kwire.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kwire.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from kwire.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_END_TIMEOUT_MS = 60_000


class Hanging(NamedTuple):
    """An open transaction of a partition, as its leader knows it."""

    partition: TopicPartition
    producer: ProducerState


async def list_transactions(
    cluster: Cluster, states: Sequence[str] = (), older_than_ms: int = -1
) -> list[tuple[int, TransactionState]]:
    """The transactions of every broker, with its node id; KafkaError."""
    request = ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=[], duration_filter=older_than_ms
    )
    await cluster.metadata()
    found = []
    for node in sorted(await cluster.nodes()):

        async def attempt(node: int = node) -> ListTransactionsResponse:
            answer = await cluster.ask(request, ListTransactionsResponse, node=node)
            check(answer.error_code, f"transactions of broker {node}")
            return answer

        answer = await cluster.retrying(attempt)
        found += [(node, state) for state in answer.transaction_states]
    return sorted(found, key=lambda one: one[1].transactional_id)


async def describe_transaction(
    cluster: Cluster, transactional_id: str
) -> tuple[int, DescribedTransaction]:
    """The coordinator of a transactional id, and its description of the transaction; KafkaError."""
    answer = await cluster.ask_coordinator(
        transactional_id,
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        DescribeTransactionsResponse,
        lambda answer: [row.error_code for row in answer.transaction_states],
        key_type=TRANSACTION,
    )
    [row] = answer.transaction_states
    check(row.error_code, f"transactional id {transactional_id}")
    return await cluster.coordinator(transactional_id, TRANSACTION), row


async def fence(cluster: Cluster, transactional_id: str) -> None:
    """Abort the open transaction of a transactional id, and fence its producer; KafkaError.

    InitProducerId does both, as when the producer itself starts again.
    """
    await init_producer_id(cluster, transactional_id, _END_TIMEOUT_MS)


async def open_transactions(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> list[Hanging]:
    """The open transactions that the leaders of partitions know; KafkaError."""

    async def ask(
        node: int, mine: dict[TopicPartition, None]
    ) -> dict[TopicPartition, tuple[int, list[ProducerState]]]:
        request = DescribeProducersRequest(
            topics=[
                TopicRequest(name=name, partition_indexes=[one.partition for one in group])
                for name, group in by_topic(mine)
            ]
        )
        answer = await cluster.ask(request, DescribeProducersResponse, node=node)
        return {
            TopicPartition(topic.name, row.partition_index): (row.error_code, row.active_producers)
            for topic in answer.topics
            for row in topic.partitions
        }

    found = []
    for partition, producers in (
        await ask_leaders(cluster, dict.fromkeys(partitions), ask)
    ).items():
        if isinstance(producers, KafkaError):
            raise producers
        found += [Hanging(partition, one) for one in producers if one.current_txn_start_offset >= 0]
    return found


async def abort_hanging(cluster: Cluster, hanging: Hanging) -> None:
    """Write the abort marker of a transaction that its coordinator has forgotten; KafkaError."""

    async def ask(
        node: int, mine: dict[TopicPartition, Hanging]
    ) -> dict[TopicPartition, tuple[int, None]]:
        [(partition, one)] = mine.items()
        marker = WritableTxnMarker(
            producer_id=one.producer.producer_id,
            producer_epoch=one.producer.producer_epoch,
            transaction_result=False,
            coordinator_epoch=max(one.producer.coordinator_epoch, 0),
            topics=[
                WritableTxnMarkerTopic(
                    name=partition.topic, partition_indexes=[partition.partition]
                )
            ],
        )
        answer = await cluster.ask(
            WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, node=node
        )
        row = answer.markers[0].topics[0].partitions[0]
        return {partition: (row.error_code, None)}

    result = await ask_leaders(cluster, {hanging.partition: hanging}, ask)
    error = result[hanging.partition]
    if error is not None:
        raise KafkaError(ErrorCode(error.code), str(hanging.partition))

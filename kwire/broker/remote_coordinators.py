"""Asks the coordinators of transactions on other brokers which partitions belong to transactions.

Rule: questions of many producers to one broker share requests (``shared_requests``). A request
names each transactional id once. Of two questions about one id, the later one goes into the next
request.

Source: AddPartitionsToTxnManager of Kafka, which refuses the earlier one.
"""

from collections.abc import Sequence
from functools import partial

from kwire.broker.coordinator_lookup import CoordinatorLookup
from kwire.broker.markers import MarkedBroker
from kwire.broker.shared_requests import SharedRequests, Wanted
from kwire.coordinator.transaction.state import TopicPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)

MOST_PARTITIONS = 1000
"""A request with this many partitions takes no further transaction."""


class _Asked(Wanted):
    """A producer's partitions, and the error code of each that was answered."""

    __slots__ = ("codes", "transaction")

    def __init__(self, transaction: AddPartitionsToTxnTransaction) -> None:
        super().__init__()
        self.transaction = transaction
        self.codes: dict[TopicPartition, ErrorCode] = {}


class RemoteCoordinators:
    """The coordinators on other brokers; requests to them run in the broker's background."""

    def __init__(self, broker: MarkedBroker, lookup: CoordinatorLookup) -> None:
        self._lookup = lookup
        self._requests = SharedRequests(broker.background, _chosen, partial(_ask_broker, broker))

    async def ask(
        self, transaction: AddPartitionsToTxnTransaction
    ) -> dict[TopicPartition, ErrorCode]:
        """The error code of each partition; KafkaError if the coordinator doesn't answer."""
        asked = _Asked(transaction)
        self._requests.add(self._lookup.leader_for(transaction.transactional_id), asked)
        await asked.done.wait()
        if asked.failure is not None:
            raise asked.failure
        return asked.codes


def _chosen(waiting: Sequence[_Asked]) -> list[_Asked]:
    """The questions of the next request: each transactional id once, not too many partitions."""
    together: dict[str, _Asked] = {}
    partitions = 0
    for one in waiting:
        if partitions >= MOST_PARTITIONS:
            break
        if together.setdefault(one.transaction.transactional_id, one) is one:
            partitions += sum(len(topic.partitions) for topic in one.transaction.topics)
    return list(together.values())


async def _ask_broker(broker: MarkedBroker, node_id: int, together: Sequence[_Asked]) -> None:
    """Ask one broker, and note the error code of each partition; KafkaError."""
    request = AddPartitionsToTxnRequest(transactions=[one.transaction for one in together])
    answer = await broker.peers.ask(node_id, request, AddPartitionsToTxnResponse)
    if answer.error_code:
        text = f"broker {node_id} answers no questions about transactions"
        raise KafkaError(ErrorCode(answer.error_code), text)
    codes = {one.transaction.transactional_id: one.codes for one in together}
    for result in answer.results_by_transaction:
        of_one = codes.get(result.transactional_id, {})
        for told in result.topic_results:
            for row in told.results_by_partition:
                of_one[told.name, row.partition_index] = ErrorCode(row.partition_error_code)

"""Asks a transaction's coordinator on another broker whether a write belongs to the transaction.

A coordinator on this broker is asked in the same way if its partition has followers: its answer
counts when the records behind it are replicated (``LocalQuestion``).

The answer takes time, and the transaction may end before the write. Then no marker would ever end
the written record. So the question leaves a ``PendingVerification`` at the partition. A marker of
the producer removes it, even if the answer hasn't come yet. A write may happen only if it finds it
with the answer in it.

Questions of many producers share requests (``remote_coordinators``). A question may be about
several partitions, of which some belong to the transaction and others don't: each has an answer of
its own.

Source: VerificationGuard, AddPartitionsToTxnManager of Kafka.
"""

from collections.abc import Iterable
from itertools import islice

from kwire.broker.broker import Broker
from kwire.broker.delayed_response import CommittedRecords
from kwire.broker.pending_verification import PendingVerification
from kwire.coordinator.transaction.state import ProducerIdAndEpoch, TopicPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

MOST_PENDING = 100_000
"""If there are more of them, all are deleted, and the next writes ask again."""

MOST_OTHERS = 1000
"""The most further partitions of one question."""

_PASSING = (
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

_NOT_ANSWERED = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""The error of a partition that is missing in the answer. The client tries again."""


class Question:
    """A question about a write to a partition; ``wait`` asks it."""

    def __init__(
        self,
        broker: Broker,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partition: TopicPartition,
        others: Iterable[TopicPartition] = (),
        *,
        adds: bool,
        knows_abortable: bool,
    ) -> None:
        """Leave the pending verifications. ``adds`` adds the partitions, otherwise they were added.

        ``others`` are partitions to which the producer writes next. Their answers are kept, too,
        but a refusal of them is no error of this write. ``knows_abortable`` says whether the client
        knows TRANSACTION_ABORTABLE.
        """
        self._broker = broker
        self._transactional_id = transactional_id
        self._producer = producer
        self._asked = partition
        self._adds = adds
        self._knows_abortable = knows_abortable
        if len(broker.verified) > MOST_PENDING:
            broker.verified.clear()
        together = dict.fromkeys((partition, *islice(others, MOST_OTHERS)))
        self._pending = {
            (topic, index): self._pending_at(topic, index) for topic, index in together
        }
        assert partition in self._pending, partition  # its answer decides about the write

    def _pending_at(self, topic: str, index: int) -> PendingVerification:
        """This epoch's pending verification at a partition; questions at the same time share it.

        Otherwise each would replace the one of the other, and both would ask again without end.
        """
        key = topic, index, self._producer.producer_id
        wanted = self._producer.epoch, _leader_epoch(self._broker, topic, index)
        pending = self._broker.verified.get(key)
        if pending is None or (pending.epoch, pending.leader_epoch) != wanted:
            pending = self._broker.verified[key] = PendingVerification(*wanted)
        return pending

    async def wait(self) -> None:
        """Ask the coordinator; KafkaError if the write may not happen.

        COORDINATOR_LOAD_IN_PROGRESS stands for all reasons to try again later.
        """
        codes: dict[TopicPartition, ErrorCode] = {}
        try:
            codes = await self._ask_coordinator()
        except KafkaError as error:
            raise self._client_error(error) from error
        finally:  # even if the client is gone
            for partition, pending in self._pending.items():
                if codes.get(partition, _NOT_ANSWERED) is ErrorCode.NONE:
                    pending.is_answered = True
                else:
                    self._forget(*partition, pending)
        code = codes.get(self._asked, _NOT_ANSWERED)
        if code is not ErrorCode.NONE:
            raise self._client_error(KafkaError(code, "another broker coordinates the transaction"))

    def _client_error(self, error: KafkaError) -> KafkaError:
        """The error for the client, with a code that its version knows."""
        code = error.code
        if code is ErrorCode.PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        elif code in _PASSING:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        elif code is ErrorCode.TRANSACTION_ABORTABLE and not self._knows_abortable:
            code = ErrorCode.INVALID_TXN_STATE
        return KafkaError(code, error.message)

    async def _ask_coordinator(self) -> dict[TopicPartition, ErrorCode]:
        """The error code of each partition."""
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, index in self._pending:
            named = topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic, partitions=[]))
            named.partitions.append(index)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self._transactional_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            verify_only=not self._adds,
            topics=list(topics.values()),
        )
        return await self._broker.transactions.elsewhere.ask(transaction)

    def _forget(self, topic: str, index: int, pending: PendingVerification) -> None:
        verified = self._broker.verified
        key = topic, index, self._producer.producer_id
        if verified.get(key) is pending:
            del verified[key]


class LocalQuestion(Question):
    """An answer of this broker's coordinator, which counts when its records are replicated."""

    def __init__(
        self,
        broker: Broker,
        producer: ProducerIdAndEpoch,
        partition: TopicPartition,
        committed: CommittedRecords,
    ) -> None:
        """Leave the pending verification for the coordinator's answer."""
        super().__init__(broker, "", producer, partition, adds=False, knows_abortable=True)
        self._committed = committed

    async def _ask_coordinator(self) -> dict[TopicPartition, ErrorCode]:
        await self._committed.replicated()
        return {self._asked: ErrorCode.NONE}


def _leader_epoch(broker: Broker, topic: str, index: int) -> int:
    partition = broker.partition_if_served(topic, index)
    return -1 if partition is None else partition.leader_epoch


def is_verified(broker: Broker, producer: ProducerIdAndEpoch, topic: str, index: int) -> bool:
    """Whether the coordinator has agreed, and neither transaction nor leader has ended since."""
    pending = broker.verified.get((topic, index, producer.producer_id))
    return (
        pending is not None
        and pending.is_answered
        and pending.epoch == producer.epoch
        and pending.leader_epoch == _leader_epoch(broker, topic, index)
    )

"""Asks a transaction's coordinator on another broker whether a write belongs to the transaction.

The coordinator of this broker is asked in the same way if its records are replicated: what it says
counts when it is replicated (``LocalQuestion``).

The answer takes time, and the transaction may end before the write: then no marker would ever end
the written record. So the question leaves a note at the partition. A marker of the producer removes
the note, also while the question is under way. Only a write that finds its note, with the answer in
it, may happen.

Source: VerificationGuard, AddPartitionsToTxnManager of Kafka.
"""

from collections.abc import Iterable

from kwire.broker.basis import Basis
from kwire.broker.broker import Broker
from kwire.broker.notes import Note
from kwire.coordinator.transaction.state import ProducerIdAndEpoch, TopicPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

MOST_NOTES = 100_000
"""If there are more notes, all are forgotten: the next writes ask again."""

_PASSING = (
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class Question:
    """A question to a coordinator on another broker; ``wait`` asks it."""

    def __init__(
        self,
        broker: Broker,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        *,
        adds: bool,
        knows_abortable: bool,
    ) -> None:
        """Leave the notes. ``adds`` adds the partitions, otherwise they must have been added.

        ``knows_abortable`` says whether the client knows TRANSACTION_ABORTABLE.
        """
        self._broker = broker
        self._transactional_id = transactional_id
        self._producer = producer
        self._adds = adds
        self._knows_abortable = knows_abortable
        if len(broker.verified) > MOST_NOTES:
            broker.verified.clear()
        self._notes = {(topic, index): self._note(topic, index) for topic, index in partitions}

    def _note(self, topic: str, index: int) -> Note:
        """The note of this epoch at a partition, which questions at the same time share.

        Otherwise each would replace the other's note, and both would ask again without end.
        """
        key = topic, index, self._producer.producer_id
        wanted = self._producer.epoch, _leader_epoch(self._broker, topic, index)
        note = self._broker.verified.get(key)
        if note is None or (note.epoch, note.leader_epoch) != wanted:
            note = self._broker.verified[key] = Note(*wanted)
        return note

    async def wait(self) -> None:
        """Ask the coordinator; KafkaError if the write may not happen.

        COORDINATOR_LOAD_IN_PROGRESS stands for all reasons to try again later.
        """
        try:
            await self._ask()
        except KafkaError as error:
            self._forget()
            if error.code is ErrorCode.PRODUCER_FENCED:
                raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, error.message) from error
            if error.code in _PASSING:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message) from error
            is_new = error.code is ErrorCode.TRANSACTION_ABORTABLE
            if is_new and not self._knows_abortable:
                raise KafkaError(ErrorCode.INVALID_TXN_STATE, error.message) from error
            raise
        except BaseException:
            self._forget()
            raise
        for note in self._notes.values():
            note.is_answered = True

    async def _ask(self) -> None:
        broker = self._broker
        node_id = broker.transactions.homes.leader_for(self._transactional_id)
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, index in self._notes:
            named = topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic, partitions=[]))
            named.partitions.append(index)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self._transactional_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            verify_only=not self._adds,
            topics=list(topics.values()),
        )
        answer = await broker.peers.ask(
            node_id,
            AddPartitionsToTxnRequest(transactions=[transaction]),
            AddPartitionsToTxnResponse,
        )
        codes = [answer.error_code]
        for result in answer.results_by_transaction:
            for told in result.topic_results:
                codes += [row.partition_error_code for row in told.results_by_partition]
        for code in codes:
            if code:
                text = f"broker {node_id} coordinates the transaction"
                raise KafkaError(ErrorCode(code), text)

    def _forget(self) -> None:
        verified = self._broker.verified
        for (topic, index), note in self._notes.items():
            key = topic, index, self._producer.producer_id
            if verified.get(key) is note:
                del verified[key]


class LocalQuestion(Question):
    """What the coordinator of this broker has said, once that is replicated."""

    def __init__(
        self,
        broker: Broker,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        basis: Basis,
    ) -> None:
        """Leave the notes for what the coordinator has just said."""
        super().__init__(broker, "", producer, partitions, adds=False, knows_abortable=True)
        self._basis = basis

    async def _ask(self) -> None:
        await self._basis.replicated()


def _leader_epoch(broker: Broker, topic: str, index: int) -> int:
    partition = broker.partition_if_served(topic, index)
    return -1 if partition is None else partition.leader_epoch


def is_verified(broker: Broker, producer: ProducerIdAndEpoch, topic: str, index: int) -> bool:
    """Whether the coordinator has agreed, and neither transaction nor leader has ended since."""
    note = broker.verified.get((topic, index, producer.producer_id))
    return (
        note is not None
        and note.is_answered
        and note.epoch == producer.epoch
        and note.leader_epoch == _leader_epoch(broker, topic, index)
    )

"""Checks whether a producer's write belongs to its transaction (KIP-890).

Rules:

- The coordinator checks the first batch of a transaction in a partition: the partition must have
  been added. Newer clients (``ADDS``) never add partitions, so their first batch adds them.
- A write to a partition that was never added is TRANSACTION_ABORTABLE, or INVALID_TXN_STATE for
  clients that don't know that error. An older epoch is INVALID_PRODUCER_EPOCH.
- A coordinator's answer counts when its records are replicated. Otherwise a failover could lose an
  added partition, and no marker would ever end the transaction's records in it.
- If ``flush.messages`` asks for it, the added partition is on the disk before its first record. A
  power cut must not leave records of a transaction that no coordinator knows.
- Nothing may happen between the check and the write: no marker would ever end a record that was
  written after the end of its transaction. A coordinator on another broker is asked first, under a
  guard (``remote_verification``).

Source: ReplicaManager.maybeSendPartitionsToTransactionCoordinator, AddPartitionsToTxnManager of
Kafka.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from kwire.broker.broker import Broker
from kwire.broker.flusher import Flush
from kwire.broker.partition import Partition
from kwire.coordinator.transaction.state import (
    EPOCH_BUMP_SINCE,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionState,
)
from kwire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kwire.broker.delayed_response import CommittedRecords
    from kwire.broker.remote_verification import Question


class Support(IntEnum):
    """The features of transactions that the client's version of an API supports."""

    BASIC = 0
    ABORTABLE = 1
    ADDS = 2


class Writer(NamedTuple):
    """The producer of a write.

    ``partitions`` are all partitions of its request. They are added together, and a coordinator on
    another broker is asked about them together.
    """

    transactional_id: str | None
    producer: ProducerIdAndEpoch
    support: Support
    partitions: Iterable[TopicPartition] = ()


def verify(
    broker: Broker, writer: Writer, partition: Partition, first_sequence: int = -1
) -> "Flush | Question | None":
    """Check a write to a partition by its first sequence (-1: none), and add the partition.

    Returns None if the write may happen now. Otherwise the caller waits for the flush, or for the
    answer of a coordinator on another broker, and then calls ``verify`` again.

    Raises KafkaError: INVALID_TXN_STATE, TRANSACTION_ABORTABLE, INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING, OUT_OF_ORDER_SEQUENCE_NUMBER, CONCURRENT_TRANSACTIONS,
    NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
    """
    producer_id, epoch = writer.producer
    adds = writer.support is Support.ADDS
    producers = partition.log.producers
    if producers.has_open_transaction(producer_id, epoch):
        return None
    if not adds and not broker.setting("transaction.partition.verification.enable"):
        return None
    if writer.transactional_id is None:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
        )
    producers.check_epoch(producer_id, epoch)
    producers.expect_first(producer_id, epoch, first_sequence)
    awaited: Flush | Question | None = None
    try:
        if adds:
            awaited = _add(broker, writer.transactional_id, writer, partition)
        else:
            awaited = _check_added(broker, writer.transactional_id, writer, partition)
    except KafkaError as error:
        if error.code is ErrorCode.NOT_COORDINATOR and len(broker.image.brokers) > 1:
            awaited = _ask_elsewhere(broker, writer.transactional_id, writer, partition)
        elif error.code is not ErrorCode.PRODUCER_FENCED:
            raise
        else:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, error.message) from error
    producers.check_first(producer_id, epoch, first_sequence, bumps=adds)
    return awaited


def _add(
    broker: Broker, transactional_id: str, writer: Writer, partition: Partition
) -> "Flush | Question | None":
    """Add the partitions of the request, unless this partition was added before."""
    home = broker.transactions.of(transactional_id, rests=False)
    known = home.coordinator.check_added(transactional_id, writer.producer)
    flush = None
    if known.state is not TransactionState.ONGOING or (
        (partition.topic, partition.index) not in known.partitions
    ):
        added = {(partition.topic, partition.index), *writer.partitions}
        flush = broker.transactions.add_partitions(
            transactional_id, writer.producer, added, EPOCH_BUMP_SINCE, rests=False
        )
    return flush if home.committed is None else _ask_here(broker, writer, partition, home.committed)


def _ask_here(
    broker: Broker, writer: Writer, partition: Partition, committed: "CommittedRecords"
) -> "Question | None":
    """The wait until the answer of this broker's coordinator is replicated; None if it is."""
    from kwire.broker.remote_verification import LocalQuestion, is_verified

    topic, index = partition.topic, partition.index
    if is_verified(broker, writer.producer, topic, index):
        return None
    return LocalQuestion(broker, writer.producer, (topic, index), committed)


def _ask_elsewhere(
    broker: Broker, transactional_id: str, writer: Writer, partition: Partition
) -> "Question | None":
    """The question to a coordinator on another broker; None if it was answered."""
    from kwire.broker.remote_verification import Question, is_verified

    topic, index = partition.topic, partition.index
    if is_verified(broker, writer.producer, topic, index):
        return None
    return Question(
        broker,
        transactional_id,
        writer.producer,
        (topic, index),
        writer.partitions,
        adds=writer.support is Support.ADDS,
        knows_abortable=writer.support >= Support.ABORTABLE,
    )


def _check_added(
    broker: Broker, transactional_id: str, writer: Writer, partition: Partition
) -> "Question | None":
    """Check that the partition was added to the transaction."""
    home = broker.transactions.of(transactional_id, rests=False)
    transaction = home.coordinator.check_added(transactional_id, writer.producer)
    if (partition.topic, partition.index) not in transaction.partitions:
        knows = writer.support >= Support.ABORTABLE
        raise KafkaError(
            ErrorCode.TRANSACTION_ABORTABLE if knows else ErrorCode.INVALID_TXN_STATE,
            "Partition was not added to the transaction",
        )
    return None if home.committed is None else _ask_here(broker, writer, partition, home.committed)

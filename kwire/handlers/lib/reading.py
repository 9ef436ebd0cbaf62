"""One look at the partitions that a consumer's fetch wants, and the answers that it gives.

Behavior:

- A consumer reads a partition from its leader, or from this broker if it follows
  (``nearest_replica``).
- Whether the client may read a topic is asked once for all its partitions. The audit log has a line
  for each denied read of a partition, and one for each allowed topic of a request.
- A partition without new records gives the same ``PartitionData`` as the last time, until one of
  its offsets changes. So nobody may change a ``PartitionData`` that has no error.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Protocol

from kwire.broker.fetch_sessions import CachedPartition, WantedPartition
from kwire.broker.partition import HostedPartition, Partition
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.slices import give_way, pieces
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.messages.fetch import AbortedTransaction, FetchRequest, PartitionData

READ, TOPIC = 3, 2
"""The operation and the resource of ACLs (``kwire.metadata.acls``), which say who may fetch."""

READ_COMMITTED = 1
TOPIC_IDS_SINCE = 13


class WantedTopic(Protocol):
    """Partitions of one topic in a fetch: a ``FetchTopic`` of a request, or of a session.

    The name is empty in versions with topic ids.
    """

    @property
    def topic(self) -> str:
        """The name."""

    @property
    def topic_id(self) -> bytes:
        """The id, zeros in versions with names."""

    @property
    def partitions(self) -> Sequence[WantedPartition]:
        """The partitions, in the order of the answers."""


class Reading:
    """What was read so far: ``size_bytes`` of records.

    ``answers`` has the answers for each wanted topic, in the order of its partitions.
    ``partitions`` are those that were looked at; ``read`` those led here that gave records, with
    the size of the records. A redirect to another replica is an error too. ``has_waited`` says
    whether something may have changed since the first look.
    """

    __slots__ = (
        *("_by_id", "_context", "_in_session", "_is_committed", "_left_bytes", "_may_move"),
        *("_name", "_request", "_served", "_topic", "answers", "has_error", "has_waited"),
        *("partitions", "read", "size_bytes"),
    )

    def __init__(
        self, request: FetchRequest, in_session: bool, max_bytes: int, context: RequestContext
    ) -> None:
        broker = context.broker
        self._request, self._context = request, context
        self._in_session = in_session
        self._left_bytes = max_bytes
        self._by_id = context.api_version >= TOPIC_IDS_SINCE
        self._is_committed = request.isolation_level == READ_COMMITTED
        self._may_move = broker.selects_nearest and request.rack_id != ""
        self._served = broker.partition_if_served
        self._name: str | None = None
        self._topic: WantedTopic
        self.answers: list[tuple[WantedTopic, list[PartitionData]]] = []
        self.partitions: list[HostedPartition] = []
        self.read: list[tuple[Partition, int]] = []
        self.size_bytes = 0
        self.has_error = self.has_waited = False

    def open_topic(self, topic: WantedTopic) -> None:
        """Look at partitions of this topic from now on.

        ``_name`` becomes None if no topic has the id, or if the client may not read the topic.
        """
        self._topic = topic
        context = self._context
        name: str | None = topic.topic
        if self._by_id:
            image = context.broker.image.topics_by_id.get(topic.topic_id)
            name = None if image is None else image.name
        authorizer = context.broker.authorizer
        if (
            authorizer is not None
            and name is not None
            and not authorizer.allows(context.connection, READ, TOPIC, name)
        ):
            name = None
        self._name = name

    def reopen_topic(self) -> None:
        """Go on after a wait, in which the topic may have been deleted."""
        self.has_waited = True
        self.open_topic(self._topic)

    def read_partition_again(self, wanted: WantedPartition, *, hurry: bool) -> PartitionData:
        """One partition's answer, as ``read_partition``, after a wait."""
        self.reopen_topic()
        return self.read_partition(wanted, hurry=hurry)

    def read_partition(self, wanted: WantedPartition, *, hurry: bool = True) -> PartitionData:
        """One partition's answer. Only here errors become error codes. Raises ColdPages."""
        partition: HostedPartition | None = None
        try:
            name = self._name
            if name is not None:
                partition = self._served(name, wanted.partition)
            if partition is None:
                partition = self._find_partition(wanted.partition)
            self.partitions.append(partition)
            if self._in_session:
                assert isinstance(wanted, CachedPartition)
                wanted.answered_by(partition)
            epoch = wanted.current_leader_epoch
            if epoch not in (-1, partition.leader_epoch):
                partition.check_leader_epoch(epoch)
            if self._may_move:
                elsewhere = self._nearer_replica(partition, wanted.fetch_offset)
                if elsewhere is not None:
                    return elsewhere
            offset = wanted.fetch_offset
            watermark, stable = partition.high_watermark, partition.last_stable_offset
            end_offset = stable if self._is_committed else watermark
            # At the end of a partition, as most of them are, there is nothing to read.
            if offset != end_offset or offset < partition.log.log_start_offset:
                data = self._read_records(partition, wanted, hurry=hurry)
                if data is not None:
                    return data
        except KafkaError as error:
            return self._failed(error, wanted.partition, partition)
        return self._without_records(partition, watermark, stable)

    def _find_partition(self, index: int) -> HostedPartition:
        """A partition that this broker doesn't lead, or that the client may not read; KafkaError.

        Consumers may read it here if this broker follows it.
        """
        context, topic = self._context, self._topic
        broker = context.broker
        name = broker.topic_by_id(topic.topic_id).name if self._by_id else topic.topic
        if broker.authorizer is not None:
            _check_readable(name, context)
        try:
            return broker.partition(name, index)
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise
            from kwire.handlers.lib.nearest_replica import followed

            return followed(name, index, context)

    def _nearer_replica(self, partition: HostedPartition, offset: int) -> PartitionData | None:
        """The answer that names a replica nearer to the client, if there is one."""
        from kwire.handlers.lib.nearest_replica import nearer

        elsewhere = nearer(partition, offset, self._request, self._context)
        if elsewhere is not None:
            self.has_error = True
        return elsewhere

    def _read_records(
        self, partition: HostedPartition, wanted: WantedPartition, *, hurry: bool
    ) -> PartitionData | None:
        """The answer with records; None if there are none. Raises KafkaError, ColdPages."""
        offset, log, aborted = wanted.fetch_offset, partition.log, None
        with log.hurry if hurry else nullcontext():
            records = partition.read(
                offset,
                min(self._left_bytes, wanted.partition_max_bytes),
                read_committed=self._is_committed,
                min_one_batch=not self.size_bytes,
            )
            if records is None:
                return None
            if self._is_committed:
                aborted = _aborted(partition, offset, records)
        size_bytes = records.size_bytes
        self.size_bytes += size_bytes
        self._left_bytes = max(0, self._left_bytes - size_bytes)
        if isinstance(partition, Partition):
            self.read.append((partition, size_bytes))
        return PartitionData(
            partition_index=partition.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=aborted,
            records=records,
        )

    def _without_records(
        self, partition: HostedPartition, watermark: int, stable: int
    ) -> PartitionData:
        """The answer of a partition without new records."""
        data, start = partition.quiet_answer, partition.log.log_start_offset
        if (
            data is None
            or data.high_watermark != watermark
            or data.last_stable_offset != stable
            or data.log_start_offset != start
            or (data.aborted_transactions is None) is self._is_committed
        ):
            data = partition.quiet_answer = PartitionData(
                partition_index=partition.index,
                high_watermark=watermark,
                last_stable_offset=stable,
                log_start_offset=start,
                aborted_transactions=[] if self._is_committed else None,
                records=b"",
            )
        return data

    def _failed(
        self, error: KafkaError, index: int, partition: HostedPartition | None
    ) -> PartitionData:
        """The answer with an error."""
        self.has_error = True
        start = -1
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and partition is not None:
            start = partition.log.log_start_offset
        return PartitionData(
            partition_index=index,
            error_code=error.code,
            high_watermark=-1,
            log_start_offset=start,
            records=b"",
        )


def _aborted(
    partition: HostedPartition, offset: int, records: FileSlice
) -> list[AbortedTransaction]:
    """The aborted transactions whose records a read_committed consumer leaves out."""
    found = partition.log.aborted_transactions(offset, partition.last_stable_offset, records)
    return [
        AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
        for entry in found
    ]


def _check_readable(name: str, context: RequestContext) -> None:
    """Raise KafkaError (TOPIC_AUTHORIZATION_FAILED) unless the client may read a topic."""
    question = READ, TOPIC, name
    authorizer, client = context.broker.authorizer, context.connection
    assert authorizer is not None
    rule = authorizer.rule(client, *question)
    if not rule.is_allowed:
        from kwire.security.audit import note_answer

        note_answer(authorizer, client, "Fetch", question, rule)
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def note_allowed(topics: Sequence[WantedTopic], context: RequestContext) -> None:
    """Note the topics of a request that the client may read, for the audit log."""
    authorizer, client = context.broker.authorizer, context.connection
    assert authorizer is not None
    from kwire.security.audit import note_answer

    counts: dict[tuple[str, bytes], int] = {}
    for piece in pieces(topics):
        await give_way(context.work)
        for topic in piece:
            key = topic.topic, topic.topic_id
            counts[key] = counts.get(key, 0) + len(topic.partitions)
    topics_by_id = context.broker.image.topics_by_id
    for some in pieces(list(counts.items())):
        await give_way(context.work)
        for (name, topic_id), count in some:
            image = topics_by_id.get(topic_id)
            question = READ, TOPIC, name if image is None else image.name
            rule = authorizer.rule(client, *question)
            if rule.is_allowed and question[2]:
                note_answer(authorizer, client, "Fetch", question, rule, count)

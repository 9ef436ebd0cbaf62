"""Writes the dead letters of share groups (KIP-1191): for records rejected or delivered too often.

Rules:

- The group's ``errors.deadletterqueue.topic.name`` names the topic. Its name has to begin with the
  broker's ``errors.deadletterqueue.topic.name.prefix`` and not with ``__``, and the topic has to
  have ``errors.deadletterqueue.group.enable``. A topic that is missing is created if the broker's
  ``errors.deadletterqueue.auto.create.topics.enable`` says so.
- A dead letter says in its headers where its record is and why it is dead. With the group's
  ``errors.deadletterqueue.copy.record.enable`` it also has the record's key, value and headers, as
  far as the log still has the record. Partition n's dead letters go to partition n, modulo the
  number of the topic's partitions.
- Dead letters that can't be written now are tried again, for as long as this broker leads the
  partition: their records stay in flight meanwhile, and the log says what they wait for. Kafka
  gives up after some tries. Where another try can't help (``HOPELESS``), because of a config or a
  refusal, the log says so and the group goes on without them, as in Kafka.
- A try may be repeated after it has gone well, so a record may have several dead letters.
- A copy that the topic has no room for (``max.message.bytes``) is left out of its dead letter.

Source: ShareGroupDLQStateManager, ShareGroupDLQRecordFetcher of Kafka.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

import trio

from kwire.broker.delayed_response import Replication
from kwire.broker.partition import Partition
from kwire.broker.topic_auto_creation import create_missing
from kwire.broker.view import BrokerView
from kwire.client.backoff import Backoff
from kwire.config.settings import GROUP, Value, settings
from kwire.errors import ErrorCode, KafkaError
from kwire.log.page_cache import ColdPages
from kwire.metadata.features import SHARE_VERSION
from kwire.metadata.image import ConfigResourceType, MetadataImage, TopicImage
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.record.batch import InvalidRecords, complete_batches
from kwire.record.records import BatchBuilder, Headers, Record, records
from kwire.record.streaming_decompressor import Limits
from kwire.share.dead_letters import DeadLetters

if TYPE_CHECKING:
    from kwire.broker.cold_reads import ColdReads
    from kwire.broker.peers import Peers
    from kwire.broker.share_history import ShareHistory

log = logging.getLogger(__name__)

DEAD_LETTERS_LEVEL = 2
"""The level of ``share.version`` from which on groups have dead letters."""

TOPIC_NAME = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"
PREFIX = "errors.deadletterqueue.topic.name.prefix"
AUTO_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
ENABLE = "errors.deadletterqueue.group.enable"

BATCH_BYTES = 64 * 1024
"""A batch of dead letters is closed at this size, so that its append takes little time."""

FIRST_PAUSE_S, LAST_PAUSE_S = 0.1, 30.0
"""The pauses between two tries."""

HOPELESS = frozenset(
    {
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
"""Errors after which the same dead letters would be refused again."""

_READ_BYTES = 1024 * 1024
_COPIED_BYTES = 1024 * 1024
"""About so much is read, and kept until it is written."""

_OPENED_BYTES = 16 * 1024 * 1024
"""So much of a compressed batch is opened for copies; what lies behind gets no copy."""

_PRODUCE_VERSION = 13
_REJECTED, _EXCEEDED = (
    "Offset rejected by client.",
    "Offset delivery count exceeded the threshold.",
)
"""Kafka's words for the cause."""

_RECORD_BYTES = 64
"""More than the lengths and deltas of a record take."""


class DeadLetterBroker(BrokerView, Protocol):
    """A broker, for the dead letters of its share partitions."""

    cold_reads: "ColdReads"

    @property
    def peers(self) -> "Peers":
        """The other brokers."""

    def topic_settings(self, topic: str) -> dict[str, Value]:
        """The effective settings of a topic."""


def dead_letter_topic(image: MetadataImage, group_id: str) -> str:
    """The topic that a group has for its dead letters, empty for none."""
    if image.feature_level(SHARE_VERSION) < DEAD_LETTERS_LEVEL:
        return ""
    return image.config(ConfigResourceType.GROUP, group_id).get(TOPIC_NAME, "")


class ShareDeadLetters:
    """Writes the dead letters of one broker's share partitions; ``written`` counts them."""

    def __init__(self, broker: DeadLetterBroker, history: "ShareHistory") -> None:
        self._broker = broker
        self._history = history
        self._last_refusal = self._last_wait = ""
        self.written = self.refused = 0

    async def write(
        self, group_id: str, source: Partition, dead: DeadLetters, is_led: Callable[[], bool]
    ) -> bool:
        """Write them all, or find that it is no use; False if ``is_led`` says no meanwhile."""
        pauses = Backoff(FIRST_PAUSE_S, LAST_PAUSE_S, self._broker.random)
        at, copies = dead.first_offset, _Copies({}, -1)
        while is_led() and at <= dead.last_offset:
            left = dead._replace(first_offset=at)
            try:
                topic = await self._topic(group_id)
                if at > copies.last_offset:
                    copies = await self._copies(group_id, source, left)
                at = await self._write_batch(topic, group_id, source, left, copies)
            except KafkaError as error:
                if error.code in HOPELESS:
                    self._refuse(group_id, source, left, error)
                    return True
                self._say_wait(group_id, error)
                await trio.sleep(pauses.next_s())
            else:
                pauses.reset()
        return at > dead.last_offset

    def _refuse(
        self, group_id: str, source: Partition, dead: DeadLetters, error: KafkaError
    ) -> None:
        """Say once in a row why records go without dead letters."""
        self.refused += dead.last_offset - dead.first_offset + 1
        reason = f"{group_id}: {error}"
        if reason != self._last_refusal:
            self._last_refusal = reason
            log.warning(
                "share group %a goes on without dead letters of %s-%d, offsets %d to %d: %s",
                group_id,
                source.topic,
                source.index,
                dead.first_offset,
                dead.last_offset,
                error,
            )

    def _say_wait(self, group_id: str, error: KafkaError) -> None:
        """Say once in a row what dead letters wait for."""
        reason = f"{group_id}: {error}"
        if reason != self._last_wait:
            self._last_wait = reason
            log.warning("dead letters of share group %a have to wait: %s", group_id, error)

    async def _write_batch(
        self,
        topic: TopicImage,
        group_id: str,
        source: Partition,
        dead: DeadLetters,
        copies: "_Copies",
    ) -> int:
        """Write as many as one batch takes; the offset of the next one. KafkaError."""
        index = source.index % len(topic.partitions)
        settings_of_topic = self._broker.topic_settings(topic.name)
        limits = settings_of_topic["max.message.bytes"], settings_of_topic["segment.bytes"]
        most_bytes = min(limit for limit in limits if isinstance(limit, int))
        assert most_bytes >= 0, (topic.name, most_bytes)
        batch, next_offset = _batch(
            group_id, source, dead, copies, most_bytes, self._broker.now_ms()
        )
        assert dead.first_offset < next_offset <= dead.last_offset + 1, (dead, next_offset)
        leader, written = topic.partitions[index].leader, 0
        try:
            if leader == self._broker.node_id:
                await self._append(topic.name, index, batch)
            else:
                await self._send(leader, topic, index, batch)
            written = next_offset - dead.first_offset
        finally:
            self._history.dead_letters_tried(group_id, written)
        self.written += written
        return next_offset

    # The topic

    async def _topic(self, group_id: str) -> TopicImage:
        """The group's topic, which is created if it may be. KafkaError (INVALID_CONFIG)."""
        broker = self._broker
        name = broker.image.config(ConfigResourceType.GROUP, group_id).get(TOPIC_NAME, "")
        prefix = str(broker.setting(PREFIX) or "")
        if not name:
            raise _invalid("the group has no topic for dead letters any more")
        if name.startswith("__"):
            raise _invalid(f"the topic {name} for dead letters begins with __")
        if not name.startswith(prefix):
            raise _invalid(f"the topic {name} for dead letters does not begin with {prefix}")
        found = broker.image.topics_by_name.get(name)
        if found is None:
            if not broker.setting(AUTO_CREATE):
                raise _invalid(f"the topic {name} for dead letters is missing; {AUTO_CREATE}=false")
            # Its records have the time of their death, whatever the broker's default is.
            configs = {ENABLE: "true", "message.timestamp.type": "CreateTime"}
            for error in (await create_missing(broker, [name], configs=configs)).values():
                raise error
            found = broker.image.topics_by_name.get(name)
            if found is None:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name} was just created")
        if not broker.topic_settings(name)[ENABLE]:
            raise _invalid(f"the topic {name} takes no dead letters: {ENABLE}=false")
        return found

    # Copies

    async def _copies(self, group_id: str, source: Partition, dead: DeadLetters) -> "_Copies":
        """The first of the records, if the group wants copies."""
        nothing = _Copies({}, dead.last_offset)
        own = self._broker.image.config(ConfigResourceType.GROUP, group_id).get(COPY)
        if own is None or not settings(GROUP)[COPY].parse(own):
            return nothing
        read = await self._read(source, dead.first_offset)
        if read is None:
            return nothing
        try:
            return await self._broker.threads.housekeeping.run(_opened, read, dead)
        except OSError as error:
            text = f"{source.topic}-{source.index} can't be read: {error}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text) from error

    async def _read(self, source: Partition, offset: int) -> FileSlice | None:
        """The batches from an offset on; None if the log doesn't have them any more."""
        while True:
            try:
                with source.log.hurry:
                    return source.read(
                        offset, _READ_BYTES, read_committed=False, min_one_batch=True
                    )
            except ColdPages as cold:
                await self._broker.cold_reads.populate_around(cold)
            except KafkaError:
                return None

    # The append

    async def _append(self, topic: str, index: int, batch: bytearray) -> None:
        """Append to a partition that this broker leads, with acks=all. KafkaError."""
        broker = self._broker
        partition = broker.partition(topic, index)
        partition.append(batch, now_ms=broker.now_ms())
        if partition.__class__ is not Partition:  # it has replicas
            timeout_s = broker.integer("offsets.commit.timeout.ms") / 1000
            await Replication(
                partition, lambda led: broker.partition_if_served(topic, index) is led, timeout_s
            ).wait()
        elif partition.flush is not None:
            await partition.flush.wait()

    async def _send(self, leader: int, topic: TopicImage, index: int, batch: bytearray) -> None:
        """Have another broker append, with acks=all. KafkaError."""
        if leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic.name}-{index} has no leader")
        data = [PartitionProduceData(index=index, records=batch)]
        request = ProduceRequest(
            acks=-1,
            timeout_ms=self._broker.integer("request.timeout.ms"),
            topic_data=[
                TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=data)
            ],
        )
        answer = await self._broker.peers.ask(
            leader, request, ProduceResponse, version=_PRODUCE_VERSION
        )
        codes = [row.error_code for told in answer.responses for row in told.partition_responses]
        if codes != [0]:
            code = ErrorCode(codes[0]) if codes else ErrorCode.UNKNOWN_SERVER_ERROR
            raise KafkaError(code, f"broker {leader} does not take them")


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, text)


class _Copies(NamedTuple):
    """Records by their offset, up to ``last_offset``; those that are missing can't be read."""

    found: Mapping[int, Record]
    last_offset: int


def _opened(read: FileSlice, dead: DeadLetters) -> _Copies:
    """The wanted records among those that were read, or the first of them; in a thread."""
    found: dict[int, Record] = {}
    size_bytes = 0
    buffer = os.pread(read.fd, read.size_bytes, read.position)
    for batch in complete_batches(buffer):
        if batch.base_offset > dead.last_offset:
            break
        try:
            for record in records(batch, Limits(max_bytes=_OPENED_BYTES)):
                if dead.first_offset <= record.offset <= dead.last_offset:
                    found[record.offset] = record
                    size_bytes += _size(record)  # headers, too: a client chooses them
                if size_bytes > _COPIED_BYTES:
                    return _Copies(found, max(found))
        except InvalidRecords:
            continue
    return _Copies(found, dead.last_offset)


def _batch(
    group_id: str,
    source: Partition,
    dead: DeadLetters,
    copies: _Copies,
    most_bytes: int,
    now_ms: int,
) -> tuple[bytearray, int]:
    """One batch of dead letters, and the offset of the first record without one."""
    builder = BatchBuilder()
    most_bytes -= _RECORD_BYTES  # which the header of the batch takes
    room_bytes = min(most_bytes, BATCH_BYTES)
    for offset, headers in _letters(group_id, source, dead):
        letter = Record(offset, now_ms, None, None, headers)
        found = copies.found.get(offset)
        if found is not None:
            copy = letter._replace(
                key=found.key, value=found.value, headers=(*found.headers, *headers)
            )
            letter = copy if _size(copy) <= most_bytes else letter
        size_bytes = _size(letter)
        is_first = offset == dead.first_offset
        if not is_first and (size_bytes > room_bytes or offset > copies.last_offset):
            return builder.build(), offset
        room_bytes -= size_bytes
        builder.add(now_ms, letter.key, letter.value, letter.headers)
    return builder.build(), dead.last_offset + 1


def _letters(group_id: str, source: Partition, dead: DeadLetters) -> Iterator[tuple[int, Headers]]:
    """The headers of each dead letter, by the offset of its record."""
    cause = _REJECTED if dead.is_rejected else _EXCEEDED
    for offset in range(dead.first_offset, dead.last_offset + 1):
        texts = {
            "topic": source.topic,
            "partition": source.index,
            "offset": offset,
            "group": group_id,
            "delivery.count": dead.delivery_count,
            "message": cause,
        }
        yield (
            offset,
            tuple((f"__dlq.errors.{name}", str(text).encode()) for name, text in texts.items()),
        )


def _size(record: Record) -> int:
    """More than the bytes that a record takes."""
    size_bytes = _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size_bytes += len(name.encode(errors="surrogateescape")) + len(value or b"") + 10
    return size_bytes

"""The records of a registry in ``_schemas``, a compacted topic with one partition.

Rules:

- Only committed records are part of the state. A change is written on the leader of the partition,
  directly behind the records that the state has; that is looked at in the same turn of the event
  loop. So two registries never decide on the same state, and no id is given twice.
- A change is answered when its records are committed and read back. If that takes too long, the
  answer is an error, though the records may be committed later; the next change is decided on what
  the topic then has.
- The topic is made by the first change. If it is deleted, the registry is empty again.
- A record that no registry writes, or that gives an id to a second schema, is left out, with a line
  in the log. So is one on which kwire fails, and a batch
  beyond ``LIMITS``; ``/readyz`` of the HTTP port tells of these, too.
- Work on many records gives way to requests. They may see a part of a change, never of a record.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import trio

from kwire.broker.topic_auto_creation import create_if_missing
from kwire.budget.slices import Slices
from kwire.config.internal_topics import SCHEMAS_TOPIC as TOPIC
from kwire.errors import ErrorCode, KafkaError
from kwire.record.batch import InvalidRecords, complete_batches
from kwire.record.records import BatchBuilder, Record, records
from kwire.record.streaming_decompressor import Limits
from kwire.registry.records import InvalidRecord, RegistryRecord, decode, encode
from kwire.registry.refusals import not_stored, too_large
from kwire.registry.state import RegistryState
from kwire.web.cross_loop_calls import BrokerCalls, NotServing, Observed

if TYPE_CHECKING:
    from kwire.broker.partition import Partition

log = logging.getLogger(__name__)

READ_BYTES = 1 << 20
FOLLOW_S = 5.0
"""How long one wait for new records lasts, in which the broker's loop holds a call."""
RETRY_S = 0.05
MISSING_S = 0.5
"""How long a registry without a topic waits until it looks whether another one has made it."""
TIMEOUT_S = 8.0
"""How long a change waits until its records are committed; calls of the broker's loop last 10 s."""

LIMITS = Limits(max_bytes=100 << 20, max_records=1_000_000)

_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class _Piece(NamedTuple):
    """A part of the topic: its bytes from an offset on, and where its committed records end."""

    topic_id: bytes | None
    content: bytes
    end_offset: int


class TopicJournal:
    """The journal of a broker's registry; used in the loop of the registry's port.

    ``calls`` are for reads and changes. ``following`` are for the wait for new records, which
    would hold up others.
    """

    def __init__(self, calls: BrokerCalls, following: BrokerCalls) -> None:
        self.state = RegistryState()
        self._calls = calls
        self._following = following
        self._topic_id: bytes | None = None
        self._offset = 0
        self._reading = trio.Lock()
        self._is_loaded = trio.Event()
        self.problem = ""
        """What is wrong since the topic was read, in one line; any thread may read it."""

    async def run(self) -> None:
        """Read the topic, and follow it, forever."""
        told = ""
        while True:
            try:
                await self._read_to_the_end()
                self._is_loaded.set()
                if self._topic_id is None:
                    await trio.sleep(MISSING_S)
                else:
                    await self._following.run(_wait_beyond, self._topic_id, self._offset)
            except NotServing:
                await trio.sleep(RETRY_S)
            except (KafkaError, OSError) as error:
                if str(error) != told:
                    told = str(error)
                    log.error("cannot read %s, the schema registry waits: %s", TOPIC, error)
                await trio.sleep(MISSING_S)

    async def ready(self) -> None:
        """Wait until the topic has been read once; Refused if that takes too long."""
        if not self._is_loaded.is_set():
            with trio.move_on_after(TIMEOUT_S):
                await self._is_loaded.wait()
                return
            raise not_stored(f"{TOPIC} is being loaded")

    async def catch_up(self) -> None:
        """Make the topic if it is missing, and read all that is committed; Refused."""
        with _refused():
            await self._calls.run(_ensure_topic)
            await self._read_to_the_end()

    async def append(self, records: Sequence[RegistryRecord]) -> None:
        """Write the records in one batch behind those of the state; Refused."""
        builder, slices = BatchBuilder(), Slices()
        topic_id, offset = self._topic_id, self._offset
        with _refused():
            now_ms = await self._calls.run(_now_ms)
            for record in records:
                builder.add(now_ms, *encode(record))
                await slices.give_way()
            await self._calls.run(_append, bytes(builder.build()), topic_id, offset)
            await self._read_to_the_end()

    async def _read_to_the_end(self) -> None:
        async with self._reading:
            while True:
                piece = await self._calls.run(_read, self._topic_id, self._offset)
                if piece.topic_id != self._topic_id:
                    self.state, self._topic_id, self._offset = RegistryState(), piece.topic_id, 0
                    if piece.topic_id is None:
                        return
                    continue
                await self._apply(piece)
                if self._offset >= piece.end_offset:
                    return
                await trio.lowlevel.checkpoint()

    async def _apply(self, piece: _Piece) -> None:
        """Apply what the bytes have from the offset on."""
        slices = Slices()
        if not piece.content:
            self._offset = max(self._offset, piece.end_offset)  # compaction has left no more
            return
        for batch in complete_batches(piece.content):
            try:
                batch.verify_crc()
                for record in () if batch.is_control else records(batch, LIMITS):
                    if record.offset >= self._offset:
                        self._apply_one(record)
                    await slices.give_way()
            except InvalidRecords as error:
                self._tell(f"the batch of {TOPIC} at offset {batch.base_offset}", error)
            assert batch.next_offset > self._offset or batch.base_offset < self._offset
            self._offset = max(self._offset, batch.next_offset)

    def _apply_one(self, record: Record) -> None:
        where = f"the record of {TOPIC} at offset {record.offset}"
        try:
            if not self.state.apply(decode(record.key, record.value)):
                log.warning("left out %s: its id has another schema", where)
        except InvalidRecord as error:
            log.warning("left out %s: %s", where, error)
        except Exception as bug:
            # It would end the registry, and again at each start.
            self._tell(where, bug)

    def _tell(self, where: str, error: Exception) -> None:
        self.problem = f"the schema registry has left out {where}: {str(error) or error!r:.200}"
        is_bug = not isinstance(error, InvalidRecords)
        log.error("%s", self.problem, exc_info=error if is_bug else None)


@contextmanager
def _refused() -> Iterator[None]:
    """Turns the errors of the broker into Refused."""
    try:
        yield
    except (NotServing, KafkaError, OSError) as error:
        if isinstance(error, KafkaError) and error.code in _TOO_LARGE:
            raise too_large(f"the schema is too large: {error.message}") from error
        raise not_stored(f"{TOPIC}: {error}") from error


# In the broker's event loop


def _leader(observed: Observed) -> "Partition":
    """The partition, which this broker has to lead; KafkaError."""
    partition = observed.broker.partition_if_served(TOPIC, 0)
    if partition is None:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker doesn't lead {TOPIC}-0")
    return partition


def _topic_id(observed: Observed) -> bytes | None:
    topic = observed.broker.image.topics_by_name.get(TOPIC)
    return None if topic is None else topic.topic_id


async def _ensure_topic(observed: Observed) -> None:
    if _topic_id(observed) is None:
        await create_if_missing(observed.broker, TOPIC)


async def _now_ms(observed: Observed) -> int:
    return observed.broker.now_ms()


async def _read(observed: Observed, topic_id: bytes | None, offset: int) -> _Piece:
    """The records from an offset on, if the topic is still the one that is known."""
    found = _topic_id(observed)
    if found is None or found != topic_id:
        return _Piece(found, b"", 0)
    partition = _leader(observed)
    end_offset = partition.high_watermark
    part = partition.read(offset, READ_BYTES, read_committed=False, min_one_batch=True)
    content = b""
    if part is not None:
        reading = observed.broker.threads.cold_reads
        content = await reading.run(os.pread, part.fd, part.size_bytes, part.position)
    return _Piece(found, content, end_offset)


async def _append(observed: Observed, batch: bytes, topic_id: bytes | None, offset: int) -> None:
    """Write a batch at this offset, and wait until it is committed; KafkaError."""
    broker, partition = observed.broker, _leader(observed)
    is_next = _topic_id(observed) == topic_id and partition.log.log_end_offset == offset
    if not is_next:
        text = f"somebody else writes to {TOPIC}; try again"
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    first = partition.append_own(bytearray(batch), broker.now_ms())
    assert first == offset, (first, offset)
    end_offset = partition.log.log_end_offset
    if partition.flush is not None:
        await partition.flush.wait()
    with trio.move_on_after(TIMEOUT_S):
        while partition.high_watermark < end_offset:
            await _changed(partition)
            if broker.partition_if_served(TOPIC, 0) is not partition:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader has changed")
    if partition.high_watermark < end_offset:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the record isn't replicated yet")


async def _wait_beyond(observed: Observed, topic_id: bytes | None, offset: int) -> None:
    """Wait, not too long, until the topic has a record at this offset, or is another topic."""
    with trio.move_on_after(FOLLOW_S):
        while _topic_id(observed) == topic_id:
            partition = _leader(observed)
            if partition.high_watermark > offset:
                return
            await _changed(partition)


async def _changed(partition: "Partition") -> None:
    changed = trio.Event()
    partition.waiters.add(changed)
    try:
        await changed.wait()
    finally:
        partition.waiters.discard(changed)

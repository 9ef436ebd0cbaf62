"""One look for news for a follower, in the common case, and the answer as bytes.

This is a fast path, for ``plain_replica_fetch``. ``look`` raises ``Uncommon`` where a partition
needs more than is done here. By then it has changed nothing that its slow and obvious twin,
``replica_fetch.when_due``, would not have changed the same way.

A look is common if:

- the follower's broker is registered with the session's epoch, and the session is known;
- at most ``MOST_AT_ONCE`` partitions are dirty; this broker leads each of them, in the leader epoch
  that the follower may have named, and has reported changes of it to the session before;
- the newest epoch of the follower's log is the newest of the leader's, so that nothing diverges;
- there is no error, no throttle, and all records to read are in the page cache.

Format of an answer: see ``plain_fetch_answer``. A partition has no tagged field here, or its
diverging epoch, which only the slow twin finds.
"""

from struct import Struct

from kwire.broker.broker import Broker
from kwire.broker.leader_partition import LeaderPartition
from kwire.broker.replica_sessions import UNKNOWN, ReplicaPosition, ReplicaSession, Tail
from kwire.errors import KafkaError
from kwire.handlers.replica_fetch import MOST_AT_ONCE, read_to_end
from kwire.log.page_cache import ColdPages
from kwire.log.partition_log import PartitionLog
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.wire import append_unsigned_varint

HEAD = Struct(">iiBihi")
"""Size, correlation id, no tags, throttle time, error code, session id."""

TOLD = Struct(">ihqqqBi")
"""Index, error code, high watermark, last stable offset, log start offset, null for the aborted
transactions, and no preferred replica."""

_NO_ELEMENTS = 1
_NO_TAGS = b"\0"


class Uncommon(Exception):
    """This look is for the slow twin."""


class Look:
    """What one look has found: the dirty partitions, and those that have news.

    ``size_bytes`` are the records. ``is_urgent`` says to answer at once. ``lacks_watermark`` says
    to answer soon.
    """

    __slots__ = ("_news", "_seen", "_session", "is_urgent", "lacks_watermark", "size_bytes")

    def __init__(self, session: ReplicaSession, broker: Broker, max_bytes: int) -> None:
        """Look. Raises Uncommon."""
        self._session = session
        self._seen: list[tuple[ReplicaPosition, LeaderPartition, bool]] = []
        self._news: list[tuple[ReplicaPosition, LeaderPartition, FileSlice | None]] = []
        self.size_bytes = 0
        self.is_urgent = self.lacks_watermark = False
        dirty = list(session.dirty)
        registered = broker.image.brokers.get(session.node_id)
        if (
            len(dirty) > MOST_AT_ONCE
            or broker.throttles is not None
            or broker.is_stopping
            or session.session_id not in broker.replica_sessions
            or registered is None
            or registered.epoch != session.broker_epoch
        ):
            raise Uncommon
        noted: list[ReplicaPosition] = []
        try:
            for position in dirty:
                left = max_bytes - self.size_bytes
                if position.is_new:
                    noted.append(position)
                    self._look_at(position, max(left, 0))
                elif left > 0:
                    self._look_at(position, left)
        except (KafkaError, ColdPages, OSError, Uncommon):
            for position in noted:
                position.is_new = True  # the twin looks at it as if this look hadn't been
            raise Uncommon from None

    def _look_at(self, position: ReplicaPosition, left: int) -> None:
        """Look at one partition. Raises Uncommon, KafkaError, ColdPages, OSError."""
        partition, epoch = position.partition, position.current_leader_epoch
        if partition is None or (epoch != partition.leader_epoch and epoch != UNKNOWN):
            raise Uncommon
        log = partition.log
        if partition.is_deleted or log.health.failure is not None:
            raise Uncommon
        if position.is_new:
            self._note(position, partition)
        records = None
        if position.fetch_offset < log.log_end_offset:
            most = position.max_bytes
            records = self._read(position, log, left if left < most else most)
        if records is not None:
            self.size_bytes += records.size_bytes
        start, watermark = log.log_start_offset, partition.high_watermark
        is_new_start = start != position.told_log_start_offset
        if records is not None or is_new_start or watermark != position.told_high_watermark:
            self._news.append((position, partition, records))
        self._seen.append((position, partition, records is not None))
        if is_new_start and position.told_log_start_offset != UNKNOWN:
            self.is_urgent = True
        if position.lacks_watermark:
            self.lacks_watermark = True

    def _read(
        self, position: ReplicaPosition, log: PartitionLog, max_bytes: int
    ) -> FileSlice | None:
        """The records from the follower's end on. Raises KafkaError, ColdPages, OSError."""
        segment, tail = log.active, position.tail
        if tail is None or tail.segment is not segment or tail.offset != position.fetch_offset:
            return read_to_end(position, log, max_bytes, not self.size_bytes, True)
        begin, end = tail.position, segment.size_bytes
        if not begin < end <= begin + max_bytes:
            return read_to_end(position, log, max_bytes, not self.size_bytes, True)
        position.tail = Tail(segment, log.log_end_offset, end)
        return segment.slice(begin, end - begin)

    def _note(self, position: ReplicaPosition, partition: LeaderPartition) -> None:
        """Note what the follower has. Raises Uncommon, KafkaError."""
        session, log, epoch = self._session, partition.log, position.last_fetched_epoch
        follower = partition.followers.get(session.node_id)
        offset = position.fetch_offset
        if (
            follower is None
            or not log.log_start_offset <= offset <= log.log_end_offset
            or (epoch != UNKNOWN and epoch != log.leader_epochs.latest)
        ):
            raise Uncommon
        partition.followed(follower, offset, position.log_start_offset, session.broker_epoch)
        position.is_new = False

    def wait(self) -> None:
        """Forget the partitions without news until they change."""
        self._forget_quiet()
        for position, _, _ in self._news:
            self._session.dirty[position] = None

    def answer(self, correlation_id: int) -> list[bytes | FileSlice]:
        """The response in parts, its size first. The session remembers its content."""
        self._forget_quiet()
        by_topic: dict[bytes, list[tuple[ReplicaPosition, LeaderPartition, FileSlice | None]]] = {}
        for one in self._news:
            by_topic.setdefault(one[0].key[1], []).append(one)
        parts: list[bytes | FileSlice] = []
        out = bytearray(HEAD.size)
        append_unsigned_varint(out, len(by_topic) + 1)
        size = self.size_bytes - 4
        for topic_id, partitions in by_topic.items():
            out += topic_id
            append_unsigned_varint(out, len(partitions) + 1)
            for position, partition, records in partitions:
                log, watermark = partition.log, partition.high_watermark
                start, stable = log.log_start_offset, watermark
                if log.producers.open_transactions or log.producers.ended:
                    stable = partition.last_stable_offset
                position.told_high_watermark = watermark
                position.told_log_start_offset = start
                out += TOLD.pack(partition.index, 0, watermark, stable, start, 0, -1)
                if records is None:
                    out.append(_NO_ELEMENTS)
                else:
                    append_unsigned_varint(out, records.size_bytes + 1)
                    size += len(out)
                    parts.append(bytes(out))
                    parts.append(records)
                    out = bytearray()
                out += _NO_TAGS
            out += _NO_TAGS
        out += _NO_TAGS
        size += len(out)
        parts.append(bytes(out))
        head = HEAD.pack(size, correlation_id, 0, 0, 0, self._session.session_id)
        first = parts[0]
        assert isinstance(first, bytes)
        parts[0] = head + first[HEAD.size :]
        return parts

    def _forget_quiet(self) -> None:
        """Partitions whose records were read come last from now on; quiet ones aren't dirty."""
        session = self._session
        for position, partition, has_records in self._seen:
            if has_records:
                session.move_to_end(position)
            elif position.fetch_offset >= partition.log.log_end_offset:
                del session.dirty[position]

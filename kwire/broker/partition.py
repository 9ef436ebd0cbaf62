"""A partition that this broker leads: its log, its high watermark, and the fetches that wait.

Rules:

- Every in-sync replica has all records below the high watermark. Consumers see only these records.
  The high watermark and the log end offset are two values, although they are equal with one
  replica.
- The last stable offset is the high watermark, or the first offset of an open transaction below it.
- If an append has to be on the disk before it is acknowledged (``flush.messages``), its handler
  waits for ``flush`` first, and the high watermark waits too.
- An append wakes the fetches that wait for this partition, and no others.
"""

from typing import Protocol

from trio import Event

from kwire.broker.flusher import Flush, Flusher
from kwire.errors import ErrorCode, KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.partition_log import PartitionLog
from kwire.log.validation import AppendInfo, AppendOrigin, CheckedBatch
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.messages.fetch import PartitionData
from kwire.record.batch import NO_PRODUCER_ID, Buffer, RecordBatch

ACKS_ALL = -1

UNACKED = -2
"""``append_plain`` returns this minus the first offset while other replicas lack the batch."""


class Waiter(Protocol):
    """Waits for a change of a partition; trio.Event is one."""

    def set(self) -> None:
        """Wake up."""


class PartitionReference:
    """Leads to a partition while it exists, and keeps nothing of it in memory afterwards."""

    __slots__ = ("partition",)

    def __init__(self, partition: "HostedPartition | None") -> None:
        self.partition = partition


NOWHERE = PartitionReference(None)


class HostedPartition:
    """One partition on this broker, in one role: that of its leader, or of a follower.

    ``is_deleted`` says that the role is over: another object uses the log then, if there is one.
    """

    __slots__ = (
        *("high_watermark", "index", "is_deleted", "leader_epoch", "log", "quiet_answer"),
        *("reference", "topic", "topic_id", "waiters"),
    )

    def __init__(
        self, topic: str, index: int, topic_id: bytes, log: PartitionLog, leader_epoch: int
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        self.high_watermark = log.log_end_offset
        self.is_deleted = False
        self.reference = PartitionReference(self)
        self.quiet_answer: PartitionData | None = None  # see kwire.handlers.lib.reading
        self.waiters: set[Waiter] = set()

    def know_watermark(self, high_watermark: int) -> None:
        """Begin with a high watermark that was known before, as far as the log has it."""
        log = self.log
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        assert log.log_start_offset <= self.high_watermark, (self.topic, self.index)

    @property
    def is_offline(self) -> bool:
        """Whether the partition's data directory has failed."""
        return self.log.is_offline

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which read_committed consumers read."""
        if not self.log.producers.open_transactions:
            return self.high_watermark
        first_unstable = self.log.first_unstable_offset
        if first_unstable is None or first_unstable > self.high_watermark:
            return self.high_watermark
        return first_unstable

    def read(
        self, offset: int, max_bytes: int, *, read_committed: bool, min_one_batch: bool
    ) -> FileSlice | None:
        """Batches from ``offset`` on, up to the limit of the isolation level.

        None if there is no such batch yet; KafkaError (OFFSET_OUT_OF_RANGE) outside of the log.
        """
        end_offset = self.last_stable_offset if read_committed else self.high_watermark
        return self.log.read(offset, max_bytes, end_offset=end_offset, min_one_batch=min_one_batch)

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Compare the leader epoch of a request (-1: none) with the partition's leader epoch.

        Raises KafkaError: FENCED_LEADER_EPOCH for an older epoch, UNKNOWN_LEADER_EPOCH for a newer.
        """
        if current_leader_epoch in (-1, self.leader_epoch):
            return
        older = current_leader_epoch < self.leader_epoch
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)

    def delete(self) -> None:
        """End the role: wake the fetches that wait for it, and empty references."""
        self.is_deleted = True
        self.reference.partition = None
        self.wake()

    def wake(self) -> None:
        """Wake all fetches that wait for this partition."""
        for waiter in self.waiters:
            waiter.set()


class Partition(HostedPartition):
    """One partition on its leader.

    With followers, until the high watermark has reached ``epoch_start``, it may be smaller than the
    high watermark that consumers have seen from the former leader.
    """

    __slots__ = (
        *("_flusher", "bytes_before", "bytes_out", "epoch_start", "flush", "isr_size", "min_isr"),
        *("offset_before", "writing"),
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: bytes,
        log: PartitionLog,
        leader_epoch: int,
        flusher: Flusher,
    ) -> None:
        super().__init__(topic, index, topic_id, log, leader_epoch)
        self.offset_before = log.log_end_offset
        self.bytes_before = log.segments.written_bytes
        self.bytes_out = 0
        self.epoch_start = 0
        self.isr_size = 1
        self.min_isr = 1
        self.flush: Flush | None = None
        self.writing: Event | None = None  # a large batch; other producers wait for its end
        self._flusher = flusher

    def configure(self, config: LogConfig) -> None:
        """Apply the settings that concern more than the log.

        No more replicas are asked for than there are: Kafka's Partition.effectiveMinIsr.
        """
        self.min_isr = min(config.min_insync_replicas, 1)

    @property
    def messages_in(self) -> int:
        """How many records were appended since this broker began to serve the partition."""
        return max(0, self.log.log_end_offset - self.offset_before)

    @property
    def bytes_in(self) -> int:
        """How many bytes were appended since this broker began to serve the partition."""
        return max(0, self.log.segments.written_bytes - self.bytes_before)

    @property
    def low_watermark(self) -> int:
        """The offset before which no replica has records."""
        return self.log.log_start_offset

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is out of sync."""
        return False

    def append(
        self,
        records: Buffer,
        *,
        now_ms: int,
        required_acks: int = ACKS_ALL,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Append batches, and wake the fetches that wait for them.

        Raises the KafkaError of ``PartitionLog.append``, NOT_LEADER_OR_FOLLOWER if the role is
        over, and NOT_ENOUGH_REPLICAS if all replicas are to acknowledge and fewer than
        ``min.insync.replicas`` are in sync.
        """
        self.check_in_sync(required_acks)
        info = self.log.append(
            records, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin
        )
        return self._appended(info)

    def append_checked(
        self, checked: CheckedBatch, *, now_ms: int, required_acks: int = ACKS_ALL
    ) -> AppendInfo:
        """Append a client's batch that was checked; otherwise like ``append``."""
        self.check_in_sync(required_acks)
        info = self.log.append_checked(checked, leader_epoch=self.leader_epoch, now_ms=now_ms)
        return self._appended(info)

    def append_plain(self, batch: RecordBatch, required_acks: int) -> int:
        """Append a batch of ``plain_batch``; its first offset, -1 if nothing was appended.

        This is the fast path of ``append_checked``. See ``UNACKED`` for a partition with followers.
        """
        if required_acks == ACKS_ALL and self.isr_size < self.min_isr:
            return -1
        try:
            if not self.log.append_in_room(batch, self.leader_epoch):
                return -1
        except KafkaError:  # append_checked meets the same error and raises it, or there is room
            return -1
        # A plain batch belongs to a topic whose appends need no flush.
        self.flush = None
        self.high_watermark = self.log.log_end_offset
        if self.waiters:
            self.wake()
        return batch.base_offset

    def append_own(self, records: bytearray, now_ms: int) -> int:
        """Append one batch that a coordinator of this broker built; return its first offset.

        Raises the KafkaError of ``append``, the slow twin. The fast path is that of
        ``append_plain``; it takes all batches except those of a transaction.
        """
        size_bytes = len(records)
        config = self.log.config
        if (
            config.takes_own
            and size_bytes <= config.max_message_bytes
            and size_bytes <= config.segment_bytes
            and not self.is_deleted
        ):
            batch = RecordBatch(records)
            if batch.producer_id == NO_PRODUCER_ID:
                first_offset = self.append_plain(batch, ACKS_ALL)
                if first_offset >= 0:
                    return first_offset
                if first_offset <= UNACKED:
                    return UNACKED - first_offset
        info = self.append(records, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
        return info.first_offset

    def check_in_sync(self, required_acks: int) -> None:
        """KafkaError if this object no longer leads, or too few replicas are in sync."""
        if self.is_deleted:  # the role has changed: another object uses the log now
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"another broker or epoch leads {self.topic}-{self.index}",
            )
        if required_acks == ACKS_ALL and self.isr_size < self.min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.isr_size} replica(s) of {self.topic}-{self.index} are in sync, "
                f"min.insync.replicas asks for {self.min_isr}",
            )

    def _appended(self, info: AppendInfo) -> AppendInfo:
        if self.log.flush_is_due:
            self.flush = self._flusher.demand(self)
            return info
        self.flush = None
        assert self.high_watermark <= self.log.log_end_offset, (self.topic, self.index)
        self.high_watermark = self.log.log_end_offset
        if self.waiters:
            self.wake()
        return info

    def flushed(self) -> None:
        """Show consumers the records that the finished syncs cover."""
        log = self.log
        seen_to = log.recovery_point if log.flush_is_due else log.log_end_offset
        self.high_watermark = max(self.high_watermark, seen_to)
        assert seen_to <= log.log_end_offset, (self.topic, self.index, seen_to)
        self.wake()

    def delete_records(self, before_offset: int) -> int:
        """Delete the records before an offset (-1: the high watermark).

        Returns the new log start offset. Raises KafkaError (OFFSET_OUT_OF_RANGE) for an offset
        beyond the high watermark.
        """
        target = self.high_watermark if before_offset == -1 else before_offset
        if not 0 <= target <= self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.log.advance_log_start_offset(target)
        assert target <= self.log.log_start_offset <= self.high_watermark, (self.topic, self.index)
        return self.log.log_start_offset

"""A partition that this broker follows: its log, its leader, and how far it is known to be safe.

Rules:

- Only what the leader has is appended, and only while the role lasts: ``is_deleted`` says that it
  is over. No client writes here. Consumers may read up to the high watermark (KIP-392), but not
  while the log is cut.
- The high watermark is the leader's, but never beyond this log's end. It falls only with a cut.
- A power cut may leave a gap between two segments. The log is cut there before it follows anybody,
  because a leader sees only its end. So is a log without leader epochs, at the high watermark.
- While a thread cuts the log (``cutting``), nobody may take or change the role: who wants to waits
  for that event first.

Source: Partition.appendRecordsToFollowerOrFutureReplica, ReplicaFetcherThread of Kafka.
"""

import trio

from kwire.broker.fetching import Position
from kwire.broker.partition import Waiter
from kwire.errors import ErrorCode, KafkaError
from kwire.log.partition_log import PartitionLog
from kwire.log.replication import append_replicated
from kwire.protocol.file_slice import FileSlice
from kwire.record.batch import Buffer


class FollowerReference:
    """Leads to a partition while its role lasts; see ``PartitionReference``."""

    __slots__ = ("partition",)

    def __init__(self, partition: "FollowerPartition") -> None:
        self.partition: FollowerPartition | None = partition


class FollowerPartition:
    """One partition on one of its followers; ``leader`` is -1 while there is none."""

    __slots__ = (
        *("cutting", "high_watermark", "index", "is_deleted", "leader", "leader_epoch"),
        *("log", "reference", "topic", "topic_id", "waiters"),
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: bytes,
        log: PartitionLog,
        leader: int,
        leader_epoch: int,
        high_watermark: int,
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        log.producers.keep_ended()
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.is_deleted = False
        self.cutting: trio.Event | None = None
        self.reference = FollowerReference(self)
        self.waiters: set[Waiter] = set()

    @property
    def is_offline(self) -> bool:
        """Whether the partition's data directory has failed."""
        return self.log.is_offline

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which compaction may look: no transaction is open before it."""
        first_unstable = self.log.first_unstable_offset
        if first_unstable is None:
            return self.high_watermark
        return min(first_unstable, self.high_watermark)

    @property
    def position(self) -> Position:
        """Where the next fetch begins."""
        log = self.log
        return Position(
            self.leader_epoch, log.log_end_offset, log.leader_epochs.latest, log.log_start_offset
        )

    @property
    def first_cut(self) -> int | None:
        """Where the log has to end before it may follow: at a gap, or where no epochs are known."""
        log = self.log
        if log.gap_at >= 0:
            return log.gap_at
        is_unknown = log.leader_epochs.latest < 0 and self.high_watermark < log.log_end_offset
        return self.high_watermark if is_unknown else None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """See ``PartitionLog.end_offset_for_epoch``."""
        return self.log.end_offset_for_epoch(epoch)

    def append(self, records: Buffer, now_ms: int) -> int:
        """Append what the leader answered; raises as ``append_replicated`` does."""
        return append_replicated(self.log, records, leader_epoch=self.leader_epoch, now_ms=now_ms)

    def advance(self, leaders_watermark: int, leaders_start: int) -> None:
        """Take the leader's high watermark and log start offset, as far as this log goes."""
        watermark = min(leaders_watermark, self.log.log_end_offset)
        if watermark > self.high_watermark:
            self.high_watermark = watermark
            if self.log.producers.ended:
                self.log.producers.forget_ended(watermark)
            if self.waiters:
                self.wake()
        self.log.advance_log_start_offset(min(leaders_start, self.high_watermark))

    def begin_cut(self) -> None:
        """A thread begins to cut the log: retention and compaction leave it alone."""
        assert self.cutting is None
        self.cutting = trio.Event()
        self.log.is_being_cut = True
        self.log.truncations += 1

    def end_cut(self) -> None:
        """The thread has ended; the watermark stays within the log."""
        assert self.cutting is not None
        watermark = min(self.high_watermark, self.log.log_end_offset)
        self.high_watermark = max(watermark, self.log.log_start_offset)
        self.log.is_being_cut = False
        self.cutting.set()
        self.cutting = None

    def flushed(self) -> None:
        """A flush has ended: nobody waits for it here."""

    def read(
        self, offset: int, max_bytes: int, *, read_committed: bool, min_one_batch: bool
    ) -> FileSlice | None:
        """Batches for a consumer, up to the high watermark; see ``Partition.read``."""
        end_offset = self.last_stable_offset if read_committed else self.high_watermark
        return self.log.read(offset, max_bytes, end_offset=end_offset, min_one_batch=min_one_batch)

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """See ``Partition.check_leader_epoch``."""
        if current_leader_epoch not in (-1, self.leader_epoch):
            is_older = current_leader_epoch < self.leader_epoch
            raise KafkaError(_FENCED if is_older else ErrorCode.UNKNOWN_LEADER_EPOCH)

    def wake(self) -> None:
        """Wake all fetches that wait for this partition."""
        for waiter in list(self.waiters):
            waiter.set()

    def delete(self) -> None:
        """End the role: wake the fetches that wait for it, and empty references."""
        self.is_deleted = True
        self.reference.partition = None
        self.wake()


_FENCED = ErrorCode.FENCED_LEADER_EPOCH

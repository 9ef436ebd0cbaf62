"""A partition that this broker follows: its log, its leader, and the high watermark.

Rules:

- Only batches of the leader are appended, and only while the role lasts; ``is_deleted`` says that
  the role has ended. Clients can't write here. Consumers may read up to the high watermark
  (KIP-392), but not while the log is truncated.
- The high watermark is the leader's, but at most this log's end. It falls only with a truncation.
- A power cut may leave a gap between two segments. The leader looks only at the log's end and can't
  see the gap. So the log is truncated at the gap before it follows a leader. A log without leader
  epochs is truncated at the high watermark.
- While a thread truncates the log (``cutting``), the role must not change. Code that changes
  the role waits for that event first.

Source: Partition.appendRecordsToFollowerOrFutureReplica, ReplicaFetcherThread of Kafka.
"""

import trio

from kwire.broker.partition import HostedPartition
from kwire.broker.replica.fetching import Position
from kwire.log.partition_log import PartitionLog
from kwire.log.replication import append_replicated
from kwire.record.batch import Buffer


class FollowerPartition(HostedPartition):
    """One partition, on one of its followers. ``leader`` is -1 while it has no leader."""

    __slots__ = ("cutting", "leader")

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
        super().__init__(topic, index, topic_id, log, leader_epoch)
        log.producers.keep_ended()
        self.leader = leader
        self.cutting: trio.Event | None = None
        self.know_watermark(high_watermark)

    @property
    def position(self) -> Position:
        """The position where the next fetch begins."""
        log = self.log
        return Position(
            self.leader_epoch, log.log_end_offset, log.leader_epochs.latest, log.log_start_offset
        )

    @property
    def first_cut(self) -> int | None:
        """The offset at which to truncate the log before it follows a leader: at a gap, or at the
        high watermark if the log has no leader epochs. None if it needs no truncation.
        """
        log = self.log
        if log.gap_at >= 0:
            return log.gap_at
        is_unknown = log.leader_epochs.latest < 0 and self.high_watermark < log.log_end_offset
        return self.high_watermark if is_unknown else None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """See ``PartitionLog.end_offset_for_epoch``."""
        return self.log.end_offset_for_epoch(epoch)

    def append(self, records: Buffer, now_ms: int) -> int:
        """Append a response of the leader; raises the errors of ``append_replicated``."""
        assert self.cutting is None, self.log.name  # a thread changes the log until ``end_cut``
        return append_replicated(self.log, records, leader_epoch=self.leader_epoch, now_ms=now_ms)

    def advance(self, leaders_watermark: int, leaders_start: int) -> None:
        """Take the leader's high watermark and log start offset, up to this log's end."""
        watermark = min(leaders_watermark, self.log.log_end_offset)
        if watermark > self.high_watermark:
            assert watermark <= self.log.log_end_offset, (self.topic, self.index, watermark)
            self.high_watermark = watermark
            if self.log.producers.ended:
                self.log.producers.forget_ended(watermark)
            if self.waiters:
                self.wake()
        self.log.advance_log_start_offset(min(leaders_start, self.high_watermark))

    def begin_cut(self) -> None:
        """Note that a thread begins to truncate the log, which retention then leaves alone."""
        assert self.cutting is None
        self.cutting = trio.Event()
        self.log.is_being_cut = True
        self.log.truncations += 1

    def end_cut(self) -> None:
        """Note that the thread has ended. The high watermark is at most the log's end."""
        assert self.cutting is not None
        watermark = min(self.high_watermark, self.log.log_end_offset)
        self.high_watermark = max(watermark, self.log.log_start_offset)
        assert self.high_watermark <= self.log.log_end_offset, self.log.name
        self.log.is_being_cut = False
        self.cutting.set()
        self.cutting = None

    def flushed(self) -> None:
        """Do nothing after a flush: on a follower, nobody waits for it."""

"""A partition with followers, on its leader: which replicas are in sync, and the high watermark.

Rules:

- The *maximal ISR* is the ISR of the metadata, and the replicas that this leader has proposed to
  add. If the answer to a proposal was lost, it may be accepted, and an added replica may become the
  leader. So a proposal counts until the metadata shows that it was accepted, or never will be.
- The high watermark is the smallest end offset in the maximal ISR. With ``flush.messages`` it is
  also at most the flushed end of the log here. It never falls. It rises only while the ISR has
  ``min.insync.replicas``, or all replicas if there are fewer (KIP-966).
- A follower outside the maximal ISR that has caught up and may join holds the high watermark back,
  too. Otherwise the leader would be ahead of it again just before it joins.
- A follower joins if it has all records below the high watermark and all from before this leader
  epoch, and has fetched them in this epoch. While too few replicas are in sync, the high watermark
  stands still and doesn't show lagging. So the follower must also have caught up (KAFKA-19996).
- A follower lags if it lacks records that are older than ``replica.lag.time.max.ms``.
  ``find_lagging_followers`` stores log ends twice in that time, so that appends and fetches need no
  clock.
- An append wakes followers. A new high watermark wakes consumers, and requests with ``acks=all``.

Source: Partition, PartitionState and Replica of Kafka; KIP-497, KIP-841, KIP-903.
"""

from typing import Protocol

from kwire.broker.delayed_produce import DelayedProduce, DelayedProduceQueue
from kwire.broker.flusher import Flusher
from kwire.broker.partition import ACKS_ALL, UNACKED, Partition
from kwire.broker.replica.followers import UNKNOWN, Follower, NoUpdates, ReplicaWaiter
from kwire.errors import ErrorCode, KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.partition_log import PartitionLog
from kwire.log.validation import AppendInfo
from kwire.metadata.image import PartitionImage
from kwire.record.batch import RecordBatch


class InSyncUpdates(Protocol):
    """The object that tells a leader about other brokers, and that commits its changes of the ISR.

    ``is_cut_off`` says that another broker may lead by now without this broker knowing it.
    """

    is_cut_off: bool

    def refuses(self, partition: "LeaderPartition", required_acks: int) -> bool:
        """Whether to refuse an append, because the record could be lost."""

    def surely_leads(self, partition: "LeaderPartition") -> bool:
        """Whether surely no other broker has led this partition for more than a second."""

    def is_active(self, node_id: int) -> bool:
        """Whether the broker is registered, not fenced, and not shutting down."""

    def is_eligible(self, node_id: int, broker_epoch: int) -> bool:
        """Whether the broker is active and registered with this epoch (KIP-903)."""

    def wanted(self, partition: "LeaderPartition") -> None:
        """Soon ask the partition for its ``proposal``, and commit it."""


class LeaderPartition(Partition):
    """One partition with followers, on its leader, during one leader epoch.

    ``row`` is its newest row in the metadata. ``acks`` are the requests that wait for the high
    watermark. ``replica_waiters`` are the followers' sessions.
    """

    __slots__ = (
        *("_at_look", "_at_look_before", "_due", "_holding", "_min_insync_replicas", "_updates"),
        *("acks", "followers", "in_sync", "node_id"),
        *("proposed", "proposed_at", "replica_waiters", "row"),
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: bytes,
        log: PartitionLog,
        leader_epoch: int,
        flusher: Flusher,
        node_id: int,
        row: PartitionImage,
        *,
        updates: InSyncUpdates | None = None,
        high_watermark: int = 0,
    ) -> None:
        """Begin to lead. The leader epoch begins at the log's end.

        ``high_watermark`` is the one that this broker knew as a follower, or before it stopped.
        """
        Partition.__init__(self, topic, index, topic_id, log, leader_epoch, flusher)
        log.producers.keep_ended()
        self.node_id = node_id
        self.epoch_start = log.log_end_offset
        self.know_watermark(high_watermark)
        self.followers: dict[int, Follower] = {}
        self.acks = DelayedProduceQueue()
        self.replica_waiters: dict[ReplicaWaiter, None] = {}
        self._updates: InSyncUpdates = NoUpdates() if updates is None else updates
        self._at_look = self._at_look_before = self._due = UNKNOWN
        self._holding: tuple[Follower, ...] = ()
        self._min_insync_replicas = 1
        self.proposed_at = UNKNOWN
        self.proposed: tuple[int, ...] = ()
        self.row = row
        self.in_sync: tuple[int, ...] = ()
        self._apply_row(row)

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The in-sync replicas, and the replicas that this leader has proposed to add."""
        added = [node for node in self.proposed if node not in self.in_sync]
        return (*self.in_sync, *added)

    @property
    def is_surely_led(self) -> bool:
        """See ``InSyncUpdates.surely_leads``."""
        return self._updates.surely_leads(self)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the ISR has fewer replicas than ``min.insync.replicas``."""
        return self.isr_size < self.min_isr

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is out of sync. A replica that is being added doesn't count."""
        return self.isr_size < len(self.row.replicas) - len(self.row.adding)

    @property
    def last_stable_offset(self) -> int:
        """The first offset of a transaction that is open, or whose marker isn't replicated."""
        stable = self.log.producers.stable_offset(self.high_watermark)
        return max(stable, min(self.log.log_start_offset, self.high_watermark))

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of the replicas whose brokers are active."""
        lowest = self.log.log_start_offset
        for follower in self.followers.values():
            if self._updates.is_active(follower.node_id):
                lowest = min(lowest, follower.log_start_offset)
        return lowest

    # The metadata

    def configure(self, config: LogConfig) -> None:
        """Apply the settings that concern more than the log."""
        self._min_insync_replicas = config.min_insync_replicas
        self.min_isr = min(self._min_insync_replicas, len(self.row.replicas))
        self.advance()

    def update(self, row: PartitionImage) -> None:
        """Take a newer row of the same leader epoch. Proposals for older rows are over."""
        # Another epoch gets another object: its followers begin to count anew.
        assert row.leader_epoch == self.leader_epoch, (self.topic, self.index, row)
        if row.partition_epoch > self.row.partition_epoch:
            self._apply_row(row)
            self.advance()
            if self.is_under_min_isr:
                self.acks.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            self.ask_for_isr()

    def _apply_row(self, row: PartitionImage) -> None:
        for node in set(self.in_sync).difference(row.isr):
            if node in self.followers and node in (self.proposed or self.in_sync):
                # Another broker removed it: its disk has failed, and its fetches no longer count.
                self.followers[node].forget()
        self.row = row
        self.in_sync = row.isr
        self.isr_size = len(row.isr)
        self.min_isr = min(self._min_insync_replicas, len(row.replicas))
        before = self.followers
        self.followers = {
            node: before.get(node) or Follower(node)
            for node in row.replicas
            if node != self.node_id
        }
        assert self.node_id not in self.followers, self.node_id  # it waits for others only
        self._note_proposal((), UNKNOWN)

    def _note_proposal(self, isr: tuple[int, ...], revision: int) -> None:
        self.proposed, self.proposed_at = isr, revision
        maximal = self.maximal_isr
        for follower in self.followers.values():
            follower.is_in_maximal_isr = follower.node_id in maximal
        self._note_holding()

    def _note_holding(self) -> None:
        updates = self._updates
        for follower in self.followers.values():
            follower.holds = follower.is_in_maximal_isr or (
                follower.is_caught_up
                and updates.is_eligible(follower.node_id, follower.broker_epoch)
            )
        self._holding = tuple([one for one in self.followers.values() if one.holds])

    # Proposals

    def _may_join(self, follower: Follower) -> bool:
        """Whether a follower may join: not if it lags, and would soon be removed again."""
        end_offset = follower.end_offset
        return (
            end_offset >= self.high_watermark
            and end_offset >= self.epoch_start
            and end_offset >= self._due
            and (follower.is_caught_up or not self.is_under_min_isr)
            and self._updates.is_eligible(follower.node_id, follower.broker_epoch)
        )

    def _lags(self, follower: Follower) -> bool:
        return follower.end_offset < self._due

    def wished_isr(self) -> tuple[int, ...]:
        """The wished ISR: without followers that lag, with followers that may join."""
        isr = []
        for node in self.in_sync:
            follower = self.followers.get(node)
            if follower is None or not self._lags(follower):
                isr.append(node)
        others = [one for one in self.followers.values() if one.node_id not in self.in_sync]
        return (*isr, *(one.node_id for one in others if self._may_join(one)))

    def ask_for_isr(self) -> None:
        """Ask for a change of the ISR if one is needed."""
        if not self.is_deleted and (self.row.is_recovering or self.wished_isr() != self.in_sync):
            self._updates.wanted(self)

    def propose(self, revision: int) -> tuple[int, ...] | None:
        """The ISR to commit at a revision of the metadata; None if no change is needed.

        The proposal counts for the high watermark from now on. So does an earlier proposal at the
        same revision, because the metadata may still accept it.
        """
        wished = self.wished_isr()
        if self.is_deleted or (wished == self.in_sync and not self.row.is_recovering):
            return None
        assert self.node_id in wished, (self.topic, self.index, wished)
        kept = self.proposed if self.proposed_at >= revision else ()
        both = (*wished, *(node for node in kept if node not in wished))
        self._note_proposal(both, revision)
        return wished

    def withdraw(self, revision: int) -> None:
        """Forget the proposals at earlier revisions: none of them will be accepted."""
        if self.proposed and self.proposed_at < revision:
            self._note_proposal((), UNKNOWN)
            self.advance()

    def find_lagging_followers(self) -> None:
        """Find followers that lag. Called every half of ``replica.lag.time.max.ms``."""
        self._due = self._at_look_before
        self._at_look_before, self._at_look = self._at_look, self.log.log_end_offset
        assert self._at_look_before <= self._at_look, (self.topic, self.index)  # it cuts nothing
        for follower in self.followers.values():
            if self._lags(follower):
                follower.is_caught_up = False
        self._look_at_followers()

    def look_at_brokers(self) -> None:
        """Check again which followers may join and which count, because brokers came or went."""
        self._look_at_followers()
        self.wake()  # the low watermark is the smallest of the active brokers'

    def _look_at_followers(self) -> None:
        self._note_holding()
        self.advance()
        self.ask_for_isr()

    # Followers

    def follower(self, node_id: int, *, names_epoch: bool) -> Follower:
        """The state of a follower.

        KafkaError for a broker that isn't a follower: UNKNOWN_LEADER_EPOCH if its fetch names the
        leader epoch, because it may know a newer assignment, otherwise NOT_LEADER_OR_FOLLOWER.
        """
        found = self.followers.get(node_id)
        if found is None:
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if names_epoch else _MOVED
            raise KafkaError(code, f"broker {node_id} is no replica of {self.topic}-{self.index}")
        return found

    def followed(
        self, follower: Follower, end_offset: int, log_start_offset: int, broker_epoch: int
    ) -> None:
        """Store the position of a fetch: the follower has all records before ``end_offset``.

        Raises KafkaError (NOT_LEADER_OR_FOLLOWER) for a fetch from before a restart of the
        follower.
        """
        if broker_epoch < follower.broker_epoch:
            raise KafkaError(
                _MOVED, f"a fetch of broker {follower.node_id} from before its restart"
            )
        has_moved = end_offset != follower.end_offset
        follower.end_offset = end_offset
        follower.broker_epoch = broker_epoch
        if end_offset >= self.log.log_end_offset:
            follower.is_caught_up = True
        if not follower.is_in_maximal_isr:
            self._note_holding()
            self.ask_for_isr()
        if has_moved:
            self.advance()
        if log_start_offset != follower.log_start_offset:
            follower.log_start_offset = log_start_offset
            self.wake()

    # The high watermark

    def advance(self) -> None:
        """Raise the high watermark to the smallest end offset of the replicas that hold it back."""
        log = self.log
        if self.isr_size < self.min_isr:
            return
        reached = log.recovery_point if log.flush_is_due else log.log_end_offset
        for follower in self._holding:
            if follower.end_offset < reached:
                reached = follower.end_offset
        if reached > self.high_watermark:
            # Consumers read up to it: it never goes beyond what this leader has itself.
            assert reached <= log.log_end_offset, (self.topic, self.index, reached)
            self.high_watermark = reached
            if log.producers.ended:
                log.producers.forget_ended(reached)
            self.advanced()

    def advanced(self) -> None:
        """Wake the requests that wait for the high watermark."""
        if self.acks:
            self.acks.reach(self.high_watermark)
        if self.waiters:
            self.wake()
        for replica in self.replica_waiters:
            replica.changed(False)

    def wait_for(self, offset: int, acks: DelayedProduce, slot: int) -> None:
        """Settle ``slot`` when the high watermark reaches an offset, or can no longer reach it."""
        self.acks.wait(offset, acks, slot)
        if self.is_deleted:
            self.acks.fail(_MOVED)
        elif offset <= self.high_watermark:
            self.acks.reach(self.high_watermark)

    # Appends

    def append_plain(self, batch: RecordBatch, required_acks: int) -> int:
        """Append a batch of ``plain_batch``; see ``Partition.append_plain``.

        With acks=all, ``UNACKED`` minus its first offset if the high watermark hasn't passed it.
        """
        if (
            self.is_deleted
            or (required_acks == ACKS_ALL and self.isr_size < self.min_isr)
            or (self._updates.is_cut_off and self._updates.refuses(self, required_acks))
        ):
            return -1
        try:
            if not self.log.append_in_room(batch, self.leader_epoch):
                return -1
        except KafkaError:  # append_checked meets the same error and raises it, or there is room
            return -1
        self.flush = None
        self._grown()
        if required_acks == ACKS_ALL and self.high_watermark < self.log.log_end_offset:
            return UNACKED - batch.base_offset
        return batch.base_offset

    def check_in_sync(self, required_acks: int) -> None:
        """Like ``Partition.check_in_sync``; KafkaError also if another broker may lead by now."""
        if self._updates.is_cut_off and self._updates.refuses(self, required_acks):
            raise KafkaError(_MOVED, f"another broker may lead {self.topic}-{self.index}")
        Partition.check_in_sync(self, required_acks)

    def _appended(self, info: AppendInfo) -> AppendInfo:
        self.flush = self._flusher.demand(self) if self.log.flush_is_due else None
        self._grown()
        return info

    def _grown(self) -> None:
        if not self._holding:
            self.advance()
        for replica in self.replica_waiters:
            replica.changed(True)

    def flushed(self) -> None:
        """Raise the high watermark after syncs."""
        self.advance()

    def delete_records(self, before_offset: int) -> int:
        """Delete the records before an offset; see ``Partition.delete_records``."""
        low = Partition.delete_records(self, before_offset)
        for replica in self.replica_waiters:
            replica.changed(True)
        return low

    def delete(self) -> None:
        """Stop leading, and wake all requests that wait."""
        Partition.delete(self)
        self.acks.fail(_MOVED)
        for replica in list(self.replica_waiters):
            replica.lost()
        self.replica_waiters.clear()


_MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER

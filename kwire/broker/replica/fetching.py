"""A follower's requests to one leader, and the meaning of each answer; pure.

Rules:

- Requests use a fetch session (KIP-227). The first request names every partition. Each further
  request names the partitions whose position has changed since. After an error of the session, or a
  lost connection, the next request opens a new session.
- An answer counts for a partition only while the partition has the position that the request named.
  So the follower appends no records that were meant for another role, leader epoch or log end.
- If an answer has a diverging epoch, the log is truncated. Nothing else of that answer counts,
  because the leader's high watermark may lie in the part that is cut off (KAFKA-14704). The epoch
  that both know ends at one offset in the leader's log and at another in the follower's. The log
  then ends at the smaller of the two.
- If the leader doesn't have the requested offset, its first and last offset decide
  (``out_of_range``).
- After another error, a partition isn't fetched for a while, a little longer each time, and is
  left out of the session. The leader may hold the next request only until this pause ends: the
  records of the paused partition may be what a producer waits for. A partition whose leader epoch
  is outdated isn't fetched until the image brings a newer epoch.

Source: AbstractFetcherThread, ReplicaFetcherThread, FetchSessionHandler of Kafka.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from kwire.errors import ErrorCode
from kwire.protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from kwire.record.batch import Buffer

FIRST_REST_S = 0.01
"""The first pause after an error. It is short, because often the leader just learns its role."""

FIRST_EPOCH = 0
"""The epoch of a request that opens a session."""

_LAST_EPOCH = 0x7FFFFFFF

Key: TypeAlias = tuple[bytes, int]
"""A partition by topic id and number."""


class Position(NamedTuple):
    """The position of a follower, which its leader compares with its own log."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class Followed(Protocol):
    """A partition that this broker follows."""

    topic_id: bytes
    index: int
    high_watermark: int

    @property
    def position(self) -> Position:
        """The position at which the partition's log ends now."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """See ``PartitionLog.end_offset_for_epoch``."""


class Limits(NamedTuple):
    """The settings of fetches."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


P = TypeVar("P", bound=Followed)


@dataclass
class Outcome(Generic[P]):
    """The work that follows from an answer; ``failure`` is an error of the whole request."""

    appends: list[tuple[P, PartitionData]] = field(default_factory=list)
    cuts: list[tuple[P, int]] = field(default_factory=list)
    out_of_range: list[P] = field(default_factory=list)
    failure: ErrorCode | None = None

    @property
    def is_only_appends(self) -> bool:
        """Whether nothing but appends follows."""
        return self.failure is None and not (self.cuts or self.out_of_range)


class Fetching(Generic[P]):
    """The partitions that are fetched from one leader, and the session with it.

    ``told`` has the positions that the session knows. ``to_look_at`` has the partitions that may
    have moved since. ``resting`` has the partitions that aren't fetched for a while, with the end
    of their pause.
    """

    def __init__(self) -> None:
        self.partitions: dict[Key, P] = {}
        self.session_id = 0
        self.epoch = FIRST_EPOCH
        self.told: dict[Key, Position] = {}
        self.to_look_at: dict[Key, None] = {}
        self.resting: dict[Key, float] = {}
        self.errors: dict[Key, int] = {}

    # Which partitions are fetched

    def follow(self, partition: P) -> None:
        """Begin to fetch a partition, or note its new object or leader epoch."""
        key = (partition.topic_id, partition.index)
        self.partitions[key] = partition
        self.to_look_at[key] = None
        self.resting.pop(key, None)
        self.errors.pop(key, None)

    def leave(self, partition: P) -> None:
        """Stop fetching a partition, unless another object has replaced this one."""
        key = (partition.topic_id, partition.index)
        if self.partitions.get(key) is partition:
            del self.partitions[key]
            self.to_look_at[key] = None
            self.resting.pop(key, None)
            self.errors.pop(key, None)

    def has(self, partition: P) -> bool:
        """Whether this object of a partition is fetched here."""
        return self.partitions.get((partition.topic_id, partition.index)) is partition

    def failed(self, partition: P, now_s: float, backoff_s: float) -> None:
        """Leave a partition out for a while after an error."""
        key = (partition.topic_id, partition.index)
        errors = self.errors[key] = self.errors.get(key, 0) + 1
        self._pause_partition(key, now_s + min(FIRST_REST_S * 2 ** min(errors - 1, 20), backoff_s))

    def pause(self, partition: P, until_s: float) -> None:
        """Leave a partition out for a while, without an error."""
        self._pause_partition((partition.topic_id, partition.index), until_s)

    def _pause_partition(self, key: Key, until_s: float) -> None:
        self.resting[key] = until_s
        self.to_look_at[key] = None

    @property
    def resumes_s(self) -> float:
        """When the next pause of a partition ends; infinity if there is none."""
        return min(self.resting.values(), default=float("inf"))

    def wait_ms(self, max_wait_ms: int, now_s: float) -> int:
        """How long the leader may hold a request that is sent now."""
        if not self.resting:
            return max_wait_ms
        pause_ms = (self.resumes_s - now_s) * 1000
        return max_wait_ms if pause_ms >= max_wait_ms else max(ceil(pause_ms), 0)

    # The request

    def request(
        self, node_id: int, broker_epoch: int, limits: Limits, now_s: float
    ) -> FetchRequest | None:
        """The next request; None while there is nothing to fetch."""
        for key in [key for key, until_s in self.resting.items() if until_s <= now_s]:
            del self.resting[key]
            self.to_look_at[key] = None
        if self.epoch == FIRST_EPOCH:
            self.told.clear()
            named, forgotten = self._changed(self.partitions), []
        else:
            named = self._changed(self.to_look_at)
            forgotten = [key for key in self.to_look_at if self._is_left_out(key)]
            for key in forgotten:
                del self.told[key]
        self.to_look_at.clear()
        if not self.told and not forgotten:
            self.epoch = FIRST_EPOCH
            return None
        return FetchRequest(
            replica_state=ReplicaState(replica_id=node_id, replica_epoch=broker_epoch),
            max_wait_ms=self.wait_ms(limits.max_wait_ms, now_s),
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=self._topics(named, limits.partition_max_bytes),
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in _by_topic(forgotten).items()
            ],
        )

    def _changed(self, keys: Iterable[Key]) -> list[Key]:
        """The partitions whose position is new to the session; notes that it knows them now."""
        changed = []
        for key in keys:
            partition = self.partitions.get(key)
            if partition is None or key in self.resting:
                continue
            position = partition.position
            if self.told.get(key) != position:
                self.told[key] = position
                changed.append(key)
        return changed

    def _is_left_out(self, key: Key) -> bool:
        return key in self.told and (key not in self.partitions or key in self.resting)

    def _topics(self, keys: list[Key], max_bytes: int) -> list[FetchTopic]:
        topics = []
        for topic_id, indexes in _by_topic(keys).items():
            partitions = []
            for index in indexes:
                position = self.told[topic_id, index]
                partitions.append(
                    FetchPartition(
                        partition=index,
                        current_leader_epoch=position.leader_epoch,
                        fetch_offset=position.fetch_offset,
                        last_fetched_epoch=position.last_fetched_epoch,
                        log_start_offset=position.log_start_offset,
                        partition_max_bytes=max_bytes,
                        high_watermark=self.partitions[topic_id, index].high_watermark,
                    )
                )
            topics.append(FetchTopic(topic_id=topic_id, partitions=partitions))
        return topics

    # The answer

    def go_on(self) -> None:
        """Note that the session has answered, so the next request continues the session."""
        self.epoch = self.epoch + 1 if self.epoch < _LAST_EPOCH else 1

    def lost(self) -> None:
        """Note that no answer comes, so the next request opens a new session."""
        self.epoch = FIRST_EPOCH

    def apply_response(self, response: FetchResponse, now_s: float, backoff_s: float) -> Outcome[P]:
        """The work that follows from the answer to the last request."""
        outcome: Outcome[P] = Outcome()
        if response.error_code:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = 0
            self.epoch = FIRST_EPOCH
            outcome.failure = ErrorCode(response.error_code)
            return outcome
        if self.epoch == FIRST_EPOCH:
            self.session_id = response.session_id
            self.epoch = 1 if self.session_id else FIRST_EPOCH
        else:
            self.go_on()
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                partition = self.partitions.get(key)
                if partition is None or key not in self.told or key in self.resting:
                    continue
                self.to_look_at[key] = None
                if partition.position == self.told[key]:
                    self._sort(outcome, key, partition, data, now_s, backoff_s)
        return outcome

    def _sort(
        self,
        outcome: Outcome[P],
        key: Key,
        partition: P,
        data: PartitionData,
        now_s: float,
        backoff_s: float,
    ) -> None:
        """Put the answer for one partition into the right part of ``outcome``."""
        code = data.error_code
        if code == ErrorCode.NONE:
            diverging = data.diverging_epoch
            if diverging is not None and diverging.epoch >= 0:
                outcome.cuts.append((partition, cut_offset(partition, diverging)))
            else:
                self.errors.pop(key, None)
                outcome.appends.append((partition, data))
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            outcome.out_of_range.append(partition)
        elif code == ErrorCode.FENCED_LEADER_EPOCH:
            self._pause_partition(key, float("inf"))
        else:
            self.failed(partition, now_s, backoff_s)


def fetched_bytes(data: PartitionData) -> Buffer:
    """The records that an answer brings for a partition."""
    records = data.records
    assert records is None or isinstance(records, Buffer)
    return b"" if records is None else records


def cut_offset(partition: Followed, leaders: EpochEndOffset) -> int:
    """The new end of a log if the epoch ``leaders`` ends at another offset there (KIP-279).

    If this log doesn't know that epoch, the log is cut at the end of the epoch before it. The next
    fetch then asks again.
    """
    end_offset = partition.position.fetch_offset
    epoch, own_end = partition.end_offset_for_epoch(leaders.epoch)
    assert epoch <= leaders.epoch, (epoch, leaders)  # the leader has nothing of a later one
    if own_end < 0:
        return min(leaders.end_offset, end_offset)
    if epoch != leaders.epoch:
        return min(own_end, end_offset)
    return min(own_end, leaders.end_offset, end_offset)


def _by_topic(keys: Iterable[Key]) -> dict[bytes, list[int]]:
    """The numbers of the partitions by topic id."""
    found: dict[bytes, list[int]] = {}
    for topic_id, index in keys:
        found.setdefault(topic_id, []).append(index)
    return found

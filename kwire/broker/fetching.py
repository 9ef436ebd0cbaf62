"""What a follower asks one leader for, and what each answer means; pure.

Rules:

- Requests use a fetch session (KIP-227): the first one names every partition, the following ones
  those whose position has changed since. After an error of the session, or a lost connection, the
  next request is a first one again.
- An answer counts for a partition only while its position is the one that was asked for. So nothing
  is appended that was meant for another role, another leader epoch or another log end.
- A diverging epoch is a cut, and nothing else of that answer counts: the leader's high watermark
  may lie in what has to be cut (KAFKA-14704). The log is cut to the smaller of both ends of the
  epoch that both know.
- Offsets that the leader doesn't have are sorted out with its ends (``out_of_range``).
- A partition with another error rests, a little longer each time, and is left out of the session.
  One whose epoch the leader has left behind rests until the image brings a newer epoch.

Source: AbstractFetcherThread, ReplicaFetcherThread, FetchSessionHandler of Kafka.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
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

FIRST_REST_S = 0.01
"""The first rest after an error: often the leader is about to learn of its role."""

FIRST_EPOCH = 0
"""The epoch of a request that opens a session."""

_LAST_EPOCH = 0x7FFFFFFF

Key: TypeAlias = tuple[bytes, int]
"""A partition by topic id and number."""


class Position(NamedTuple):
    """Where a follower is: what its leader compares with its own log."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class Followed(Protocol):
    """A partition that is followed."""

    topic_id: bytes
    index: int
    high_watermark: int

    @property
    def position(self) -> Position:
        """Where its log ends now."""

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
    """What an answer asks for; ``failure`` is an error of the whole request."""

    appends: list[tuple[P, PartitionData]] = field(default_factory=list)
    cuts: list[tuple[P, int]] = field(default_factory=list)
    out_of_range: list[P] = field(default_factory=list)
    failure: ErrorCode | None = None


class Fetching(Generic[P]):
    """The partitions that are fetched from one leader, and the session with it.

    ``told`` are the positions that the session knows, ``to_look_at`` are the partitions that may
    have moved since, ``resting`` are those that are left out, with the end of their rest.
    ``plain_fetching`` is a fast twin of ``request`` and ``take``.
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
        """Fetch a partition, or take note of its new object or leader epoch."""
        key = (partition.topic_id, partition.index)
        self.partitions[key] = partition
        self.to_look_at[key] = None
        self.resting.pop(key, None)
        self.errors.pop(key, None)

    def leave(self, partition: P) -> None:
        """Fetch a partition no more, unless another object of it has come meanwhile."""
        key = (partition.topic_id, partition.index)
        if self.partitions.get(key) is partition:
            del self.partitions[key]
            self.to_look_at[key] = None
            self.resting.pop(key, None)
            self.errors.pop(key, None)

    def has(self, partition: P) -> bool:
        """Whether a partition is fetched here, as this object."""
        return self.partitions.get((partition.topic_id, partition.index)) is partition

    def failed(self, partition: P, now_s: float, backoff_s: float) -> None:
        """Have a partition rest after an error."""
        key = (partition.topic_id, partition.index)
        errors = self.errors[key] = self.errors.get(key, 0) + 1
        self._rest(key, now_s + min(FIRST_REST_S * 2 ** min(errors - 1, 20), backoff_s))

    def pause(self, partition: P, until_s: float) -> None:
        """Leave a partition out for a while, without an error."""
        self._rest((partition.topic_id, partition.index), until_s)

    def _rest(self, key: Key, until_s: float) -> None:
        self.resting[key] = until_s
        self.to_look_at[key] = None

    @property
    def resumes_s(self) -> float:
        """When the next partition has rested; infinity if none rests."""
        return min(self.resting.values(), default=float("inf"))

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
            max_wait_ms=limits.max_wait_ms,
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
        """Those of the partitions whose position the session doesn't know; now it does."""
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
        """The session has answered: the next request is another one of it."""
        self.epoch = self.epoch + 1 if self.epoch < _LAST_EPOCH else 1

    def lost(self) -> None:
        """No answer comes: the next request opens a new session in place of this one."""
        self.epoch = FIRST_EPOCH

    def take(self, response: FetchResponse, now_s: float, backoff_s: float) -> Outcome[P]:
        """What the answer to the last request asks for."""
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
        """Sort the answer for one partition."""
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
            self._rest(key, float("inf"))
        else:
            self.failed(partition, now_s, backoff_s)


def cut_offset(partition: Followed, leaders: EpochEndOffset) -> int:
    """Where a log has to end whose leader ends the epoch ``leaders`` at another offset (KIP-279).

    If this log doesn't know that epoch, it is cut to the end of the one before, and the next fetch
    asks again.
    """
    end_offset = partition.position.fetch_offset
    epoch, own_end = partition.end_offset_for_epoch(leaders.epoch)
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

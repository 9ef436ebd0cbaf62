"""What a follower asks its leader for and makes of the answers, by scripts."""

import math

import pytest

from kwire.broker.replica.fetching import FIRST_REST_S, Fetching, Limits, Position, cut_offset
from kwire.errors import ErrorCode
from kwire.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

LIMITS = Limits(max_wait_ms=500, min_bytes=1, max_bytes=10_000, partition_max_bytes=1000)
TOPIC, OTHER = bytes(15) + b"t", bytes(15) + b"u"
BACKOFF_S = 1.0


class Replica:
    """A followed partition: its end, its epochs as (epoch, start offset)."""

    def __init__(self, index=0, end=0, epochs=(), topic_id=TOPIC, leader_epoch=5):
        self.topic_id, self.index = topic_id, index
        self.end, self.epochs = end, list(epochs)
        self.leader_epoch, self.high_watermark = leader_epoch, 0

    @property
    def position(self):
        """Where its log ends."""
        return Position(self.leader_epoch, self.end, self.epochs[-1][0] if self.epochs else -1, 0)

    def end_offset_for_epoch(self, epoch):
        """As a log says it."""
        before = [known for known, _ in self.epochs if known <= epoch]
        after = [start for known, start in self.epochs if known > epoch]
        if not self.epochs or (not after and before[-1] != epoch):
            return -1, -1
        return (before[-1] if before else epoch), (after[0] if after else self.end)


def asked(fetching, now_s=0.0):
    """The next request as (session, epoch, {(topic, index): fetch offset}, forgotten)."""
    request = fetching.request(2, 77, LIMITS, now_s)
    if request is None:
        return None
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 77)
    named = {
        (t.topic_id, p.partition): p.fetch_offset for t in request.topics for p in t.partitions
    }
    forgotten = {
        (t.topic_id, index) for t in request.forgotten_topics_data for index in t.partitions
    }
    return request.session_id, request.session_epoch, named, forgotten


def answer(*data, session=9, error=0, topic_id=TOPIC):
    """A response about partitions of one topic."""
    topics = [FetchableTopicResponse(topic_id=topic_id, partitions=list(data))] if data else []
    return FetchResponse(error_code=error, session_id=session, responses=topics)


def of(index=0, error=0, **fields):
    """The part of a response about one partition."""
    return PartitionData(
        partition_index=index, error_code=error, high_watermark=0, records=None, **fields
    )


@pytest.fixture
def fetching():
    """The partitions 0 and 1 of a topic, ending at 10 and 20."""
    made = Fetching()
    for index in (0, 1):
        made.follow(Replica(index, 10 + 10 * index, [(3, 0)]))
    return made


def take(fetching, response, now_s=0.0):
    """What an answer asks for."""
    return fetching.apply_response(response, now_s, BACKOFF_S)


def test_a_session_names_only_what_has_moved(fetching):
    """The first request names all, further ones the partitions whose position is new (KIP-227)."""
    assert asked(fetching) == (0, 0, {(TOPIC, 0): 10, (TOPIC, 1): 20}, set())
    outcome = take(fetching, answer(of(0), of(1)))
    assert [partition.index for partition, _ in outcome.appends] == [0, 1]
    outcome.appends[0][0].end = 15
    assert asked(fetching) == (9, 1, {(TOPIC, 0): 15}, set())
    assert take(fetching, answer()).appends == []
    assert asked(fetching) == (9, 2, {}, set())


def test_a_partition_may_come_and_go(fetching):
    """The session is told of both; a new object of a partition takes the place of the old one."""
    old = fetching.partitions[TOPIC, 0]
    asked(fetching)
    take(fetching, answer())
    fetching.leave(fetching.partitions[TOPIC, 1])
    fetching.follow(Replica(7, 3, topic_id=OTHER))
    assert asked(fetching) == (9, 1, {(OTHER, 7): 3}, {(TOPIC, 1)})
    take(fetching, answer())
    fetching.follow(Replica(0, 10, [(3, 0)], leader_epoch=6))
    fetching.leave(old)
    assert asked(fetching) == (9, 2, {(TOPIC, 0): 10}, set())
    take(fetching, answer())
    for partition in list(fetching.partitions.values()):
        fetching.leave(partition)
    assert asked(fetching) == (9, 3, {}, {(TOPIC, 0), (OTHER, 7)})
    assert asked(fetching) is None


@pytest.mark.parametrize(
    ("error", "session"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9)],
)
def test_a_session_that_the_leader_doesnt_know_begins_anew(fetching, error, session):
    """With every partition; a session that the leader may still have is named to be replaced."""
    asked(fetching)
    take(fetching, answer())
    asked(fetching)
    assert take(fetching, answer(error=error)).failure is error
    assert asked(fetching) == (session, 0, {(TOPIC, 0): 10, (TOPIC, 1): 20}, set())


def test_an_error_without_a_name_is_an_error(fetching):
    """A newer leader may know more errors; the follower goes on with a new session."""
    asked(fetching)
    assert take(fetching, answer(error=999)).failure is ErrorCode.UNKNOWN_SERVER_ERROR
    asked(fetching)
    assert take(fetching, answer(of(0, error=999), of(1))).appends
    assert asked(fetching) == (9, 1, {}, {(TOPIC, 0)})


def test_after_a_lost_connection_a_session_begins_anew(fetching):
    """Nobody knows what of the last request the leader has seen."""
    asked(fetching)
    take(fetching, answer())
    asked(fetching)
    fetching.lost()
    assert asked(fetching) == (9, 0, {(TOPIC, 0): 10, (TOPIC, 1): 20}, set())


def test_without_a_session_every_request_names_all(fetching):
    """A leader whose sessions are all in use gives none."""
    asked(fetching)
    take(fetching, answer(session=0))
    assert asked(fetching) == (0, 0, {(TOPIC, 0): 10, (TOPIC, 1): 20}, set())


@pytest.mark.parametrize("change", ["end", "leader_epoch"])
def test_an_answer_to_another_question_counts_for_nothing(fetching, change):
    """The log was cut, or the role has changed, while the leader answered."""
    asked(fetching)
    moved = fetching.partitions[TOPIC, 0]
    setattr(moved, change, getattr(moved, change) - 1)
    outcome = take(fetching, answer(of(0), of(1)))
    assert [partition.index for partition, _ in outcome.appends] == [1]
    _, _, named, _ = asked(fetching)
    assert named == {(TOPIC, 0): moved.end}


def test_a_diverging_epoch_is_a_cut_and_nothing_else(fetching):
    """The leader's watermark may lie in what is cut (KAFKA-14704)."""
    asked(fetching)
    diverging = EpochEndOffset(epoch=3, end_offset=6)
    outcome = take(fetching, answer(of(0, diverging_epoch=diverging)))
    assert [(partition.index, offset) for partition, offset in outcome.cuts] == [(0, 6)]
    assert outcome.appends == []


@pytest.mark.parametrize(
    ("epochs", "end", "leaders", "cut"),
    [
        ([(1, 0), (3, 10)], 20, (3, 15), 15),  # both know the epoch: the leader ended it earlier
        ([(1, 0), (3, 10)], 20, (1, 12), 10),  # or the follower did
        ([(1, 0), (4, 10)], 20, (3, 15), 10),  # the follower doesn't know it: it asks again
        ([(4, 10)], 20, (3, 5), 5),  # nor anything before: it begins anew there
        ([], 20, (3, 15), 15),  # it knows no epochs at all
        ([(1, 0)], 8, (1, 12), 8),  # never beyond its end
    ],
)
def test_a_log_is_cut_to_what_both_have(epochs, end, leaders, cut):
    """By the epochs of both, not by offsets alone (KIP-101, KIP-279)."""
    epoch, end_offset = leaders
    replica = Replica(0, end, epochs)
    assert cut_offset(replica, EpochEndOffset(epoch=epoch, end_offset=end_offset)) == cut


def test_offsets_that_the_leader_doesnt_have_are_sorted_out(fetching):
    """By asking for its ends."""
    asked(fetching)
    outcome = take(fetching, answer(of(1, ErrorCode.OFFSET_OUT_OF_RANGE)))
    assert [partition.index for partition in outcome.out_of_range] == [1]


def test_an_error_rests_longer_each_time(fetching):
    """Out of the session meanwhile, up to the limit; a success ends the row."""
    asked(fetching)
    take(fetching, answer(of(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)), now_s=1.0)
    assert asked(fetching, 1.0) == (9, 1, {}, {(TOPIC, 0)})
    take(fetching, answer(), now_s=1.0)
    assert fetching.resumes_s == 1.0 + FIRST_REST_S
    now_s = fetching.resumes_s
    assert asked(fetching, now_s) == (9, 2, {(TOPIC, 0): 10}, set())
    rests = []
    for _ in range(12):
        take(fetching, answer(of(0, ErrorCode.KAFKA_STORAGE_ERROR)), now_s)
        rests.append(fetching.resumes_s - now_s)
        asked(fetching, now_s)
        take(fetching, answer(), now_s)
        now_s = fetching.resumes_s
        asked(fetching, now_s)
    assert rests[0] < rests[1] < rests[-1] == pytest.approx(BACKOFF_S)
    take(fetching, answer(of(0)), now_s)
    fetching.failed(fetching.partitions[TOPIC, 0], now_s, BACKOFF_S)
    assert fetching.resumes_s == pytest.approx(now_s + FIRST_REST_S)


def test_a_leader_holds_a_request_until_a_pause_ends(fetching):
    """Records of the paused partition may be what a producer waits for; nobody waits for ever."""

    def wait_ms(now_s):
        return fetching.request(2, 77, LIMITS, now_s).max_wait_ms

    assert wait_ms(0.0) == LIMITS.max_wait_ms
    take(fetching, answer(of(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)), now_s=0.0)
    assert wait_ms(0.0) == FIRST_REST_S * 1000
    take(fetching, answer(), now_s=0.0)
    assert wait_ms(FIRST_REST_S / 2) == FIRST_REST_S * 500
    take(fetching, answer(), now_s=0.0)
    assert wait_ms(FIRST_REST_S) == LIMITS.max_wait_ms
    take(fetching, answer(of(0, ErrorCode.FENCED_LEADER_EPOCH)), now_s=0.1)
    assert wait_ms(0.1) == LIMITS.max_wait_ms


def test_a_fenced_partition_waits_for_the_image(fetching):
    """The leader has a newer epoch; asking again with the old one is in vain."""
    asked(fetching)
    take(fetching, answer(of(0, ErrorCode.FENCED_LEADER_EPOCH)))
    assert asked(fetching) == (9, 1, {}, {(TOPIC, 0)})
    assert fetching.resumes_s == math.inf
    take(fetching, answer())
    newer = fetching.partitions[TOPIC, 0]
    newer.leader_epoch = 6
    fetching.follow(newer)
    assert asked(fetching) == (9, 2, {(TOPIC, 0): 10}, set())

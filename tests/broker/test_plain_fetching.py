"""The fast path of a follower asks and understands what its slow twin does."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest

from kwire.broker import plain_fetching
from kwire.broker.fetching import Fetching, Limits
from kwire.broker.follower_partition import FollowerPartition
from kwire.broker.plain_fetching import Fetched, Sender
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.protocol.frame import encode_request, encode_response
from kwire.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from tests.broker.following import NOW_MS, batch_at

LIMITS = Limits(max_wait_ms=500, min_bytes=1, max_bytes=10_000, partition_max_bytes=1000)
SENDER = Sender(b"broker-2-fetcher-0", 2, 77)
VERSION, SESSION = 18, 9
TOPICS = [bytes(15) + bytes([n]) for n in (1, 2)]
PER_TOPIC = 3
STEPS = 80
BACKOFF_S = 1.0


class Twins:
    """Two followers of the same partitions: one asks plainly where it can, the other never does."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = Random(seed)
        self.partitions: list[FollowerPartition] = []
        self.manager = manager = LogManager.open([directory], node_id=2, now_ms=NOW_MS, disk=Disk())
        for topic_id in TOPICS:
            for index in range(PER_TOPIC):
                name = f"t{topic_id[-1]}"
                log = manager.get_or_create(name, index, topic_id, LogConfig(), NOW_MS)
                made = FollowerPartition(name, index, topic_id, log, 1, 5, 0)
                self.partitions.append(made)
        self.plain: Fetching[FollowerPartition] = Fetching()
        self.slow: Fetching[FollowerPartition] = Fetching()
        self.plainly = 0
        for fetching in (self.plain, self.slow):
            for partition in self.partitions:
                fetching.follow(partition)

    def ask(self, number: int, now_s: float) -> bool:
        """Both ask the same; whether there is anything to ask."""
        asked = plain_fetching.request(self.plain, LIMITS, SENDER, number, now_s)
        slow = self.slow.request(SENDER.node_id, SENDER.broker_epoch, LIMITS, now_s)
        if asked is None:
            assert self.plain.request(SENDER.node_id, SENDER.broker_epoch, LIMITS, now_s) == slow
        else:
            self.plainly += 1
            assert slow is not None
            assert asked == encode_request(slow, VERSION, number, SENDER.client_id.decode())
        self.agree()
        return slow is not None

    def agree(self) -> None:
        """Both know the same."""
        for name in ("epoch", "session_id", "told", "to_look_at", "resting", "errors"):
            assert getattr(self.plain, name) == getattr(self.slow, name), name

    def answer(self, number: int, now_s: float) -> None:
        """Both take an answer, which is common or not, and the logs get what it brings."""
        response = self.response()
        frame, _ = encode_response(response, VERSION, number)
        before = _state(self.plain)
        outcome = self.slow.apply_response(response, now_s, BACKOFF_S)
        found = plain_fetching.answer(self.plain, memoryview(frame)[4:])
        if found is None:
            assert _state(self.plain) == before
            again = self.plain.apply_response(response, now_s, BACKOFF_S)
            assert again == outcome
        else:
            self.plainly += 1
            assert (outcome.cuts, outcome.out_of_range, outcome.failure) == ([], [], None)
            assert found == [
                Fetched(one, _records(data), data.high_watermark, data.log_start_offset)
                for one, data in outcome.appends
            ]
        self.agree()
        for partition, data in outcome.appends:
            if records := _records(data):
                partition.append(records, NOW_MS)
            partition.advance(data.high_watermark, data.log_start_offset)

    def response(self) -> FetchResponse:
        """What a leader may answer."""
        random = self.random
        topics = []
        for topic_id in random.sample(TOPICS, random.randint(0, len(TOPICS))):
            of_topic = [one for one in self.partitions if one.topic_id == topic_id]
            some = random.sample(of_topic, random.randint(1, len(of_topic)))
            parts = [self.part(partition) for partition in some]
            topics.append(FetchableTopicResponse(topic_id=topic_id, partitions=parts))
        code = 70 if random.random() < 0.05 else 0
        return FetchResponse(error_code=code, session_id=SESSION, responses=topics)

    def part(self, partition: FollowerPartition) -> PartitionData:
        """The part about one partition."""
        random, end = self.random, partition.log.log_end_offset
        fields: dict[str, Any] = {"error_code": 0, "records": b"", "high_watermark": end}
        what = random.random()
        if what < 0.6:
            fields["records"] = batch_at(end, *[b"v" * random.choice((1, 300))] * 2)
        elif what < 0.65:
            fields["error_code"] = random.choice((6, 1, 74))
        elif what < 0.7:
            fields["diverging_epoch"] = EpochEndOffset(epoch=4, end_offset=1)
        elif what < 0.75:
            fields["records"] = None
        fields["partition_index"] = partition.index + (100 if random.random() < 0.03 else 0)
        return PartitionData(log_start_offset=0, aborted_transactions=None, **fields)

    def change(self, now_s: float) -> None:
        """Something else happens to a partition."""
        partition = self.random.choice(self.partitions)
        what, pause_s = self.random.random(), self.random.choice((0.2, 2.0))
        for fetching in (self.plain, self.slow):
            if what < 0.05:
                fetching.leave(partition)
            elif what < 0.15:
                fetching.follow(partition)
            elif what < 0.2:
                fetching.pause(partition, now_s + pause_s)
            elif what < 0.22:
                fetching.lost()
        if 0.22 < what < 0.3:
            partition.leader_epoch += 1


def _records(data: PartitionData) -> memoryview:
    """The records of an answer; none may be told in two ways."""
    records = data.records or b""
    assert isinstance(records, bytes)
    return memoryview(records)


def _state(fetching: Fetching[FollowerPartition]) -> dict[str, Any]:
    """What a fetching knows, but for the partitions themselves."""
    return deepcopy({name: one for name, one in vars(fetching).items() if name != "partitions"})


Made: TypeAlias = Callable[[int], Twins]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """Makes twins from a seed, and closes their logs after the test."""
    twins: list[Twins] = []

    def make(seed: int) -> Twins:
        twins.append(Twins(tmp_path, seed))
        return twins[-1]

    yield make
    for one in twins:
        one.manager.close(NOW_MS, clean=False)


@pytest.mark.parametrize("seed", range(8))
def test_both_paths_ask_and_understand_the_same(made: Made, seed: int) -> None:
    """Whatever comes; what the fast path leaves to its twin, it leaves unchanged."""
    twins = made(seed)
    for step in range(STEPS):
        twins.change(float(step))
        if twins.ask(step + 1, float(step)):
            twins.answer(step + 1, float(step))
    assert twins.plainly > STEPS // 2


@pytest.mark.parametrize("cut", range(0, 150, 7))
def test_a_damaged_answer_is_left_to_the_twin(made: Made, cut: int) -> None:
    """Wherever it ends too early, and if something follows."""
    twins = made(1)
    twins.ask(1, 0.0)
    twins.slow.apply_response(FetchResponse(session_id=SESSION), 0.0, BACKOFF_S)
    twins.plain.apply_response(FetchResponse(session_id=SESSION), 0.0, BACKOFF_S)
    twins.ask(2, 0.0)
    data = PartitionData(
        partition_index=0, error_code=0, high_watermark=0, records=batch_at(0, b"v" * 80)
    )
    topic = FetchableTopicResponse(topic_id=TOPICS[0], partitions=[data])
    response = FetchResponse(session_id=SESSION, responses=[topic])
    frame = bytes(encode_response(response, VERSION, 2)[0])[4:]
    before = _state(twins.plain)
    assert plain_fetching.answer(twins.plain, memoryview(frame[:cut])) is None
    assert plain_fetching.answer(twins.plain, memoryview(frame + bytes(cut + 1))) is None
    assert _state(twins.plain) == before


def test_a_request_about_very_many_is_left_to_the_twin(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket may not take it at once."""
    twins = made(1)
    twins.ask(1, 0.0)
    twins.plain.apply_response(FetchResponse(session_id=SESSION), 0.0, BACKOFF_S)
    for partition in twins.partitions:
        twins.plain.follow(partition)
    monkeypatch.setattr(plain_fetching, "MOST_NAMED", len(twins.partitions) - 1)
    before = _state(twins.plain)
    assert plain_fetching.request(twins.plain, LIMITS, SENDER, 2, 0.0) is None
    assert _state(twins.plain) == before

"""A follower's fetch: the fast path and its twin answer with the same bytes."""

from pathlib import Path
from random import Random

import pytest

from kwire.handlers import plain_replica_fetch, replica_fetch
from kwire.protocol.frame import RequestHeader, encode_request
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest
from tests.handlers.followers import TOPIC, VERSION, Leader, at, leading, offsets

PARTITIONS = 4
STEPS = 60


class Script:
    """A random history of a leader and one follower; the same seed gives the same requests."""

    def __init__(self, leader: Leader, seed: int) -> None:
        self.leader = leader
        self.random = Random(seed)
        self.epoch = 1

    async def change(self) -> None:
        """Something happens at the leader."""
        random, leader = self.random, self.leader
        index = random.randrange(PARTITIONS)
        what = random.random()
        if what < 0.6:
            leader.append(random.randint(1, 3), index=index, size_bytes=random.choice((10, 3000)))
        elif what < 0.7:
            leader.partition(index).delete_records(-1)
        elif what < 0.75:
            self.epoch += 1
            for number in range(PARTITIONS):
                await leader.change(number, leader_epoch=self.epoch)
        elif what < 0.85:
            partition = leader.partition(index)
            end = partition.log.log_end_offset
            partition.followed(partition.follower(3, names_epoch=True), end, 0, 5)

    def wanted(self, is_first: bool) -> list[FetchPartition]:
        """What the follower tells: where it is, or something that the leader refuses."""
        random = self.random
        named = []
        for index in range(PARTITIONS):
            if not is_first and random.random() < 0.5:
                continue
            log = self.leader.partition(index).log
            offset = random.randint(max(0, log.log_start_offset - 1), log.log_end_offset)
            fields = {"current_leader_epoch": self.epoch, "max_bytes": random.choice((100, 10**6))}
            if random.random() < 0.1:
                offset += 5
            if random.random() < 0.1:
                fields["current_leader_epoch"] += random.choice((-1, 1))
            if random.random() < 0.5:
                fields["last_fetched_epoch"] = random.randint(0, self.epoch)
            if random.random() < 0.7:
                fields["high_watermark"] = random.randint(0, offset)
            named.append(at(offset, index, **fields))
        return named


async def _answers(directory: Path, seed: int, *, quick: bool) -> list[bytes]:
    """The answers to a script, as bytes."""
    answers = []
    async with leading(directory, partitions=PARTITIONS) as leader:
        topic_id = leader.topic_id
        leader.broker.random.seed(1)
        script = Script(leader, seed)
        follower = await leader.follower()
        follower.session_epoch = 0
        for step in range(STEPS):
            await script.change()
            leader.broker.has_followers = quick  # else the fast path isn't tried
            request: FetchRequest = follower.request(*script.wanted(is_first=not step))
            request.max_bytes = script.random.choice((1, 4000, 10**7))
            frame = encode_request(request, VERSION, step, "broker-2-fetcher-0")
            await follower.raw.stream.send_all(bytes(frame))
            answer = await follower.raw.receive_frame()
            assert answer is not None
            answers.append(answer.replace(topic_id, bytes(16)))
            if not step:
                (follower.session_id,) = leader.broker.replica_sessions._sessions
            follower.session_epoch += 1
        assert leader.partition().topic == TOPIC
    return answers


@pytest.mark.parametrize("seed", range(5))
async def test_both_ways_answer_the_same(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records, errors, diverging epochs, watermarks, and nothing at all."""
    slow_twin = replica_fetch.fetch_by_replica
    left = []

    def counted(*arguments):
        left.append(1)
        return slow_twin(*arguments)

    monkeypatch.setattr(replica_fetch, "fetch_by_replica", counted)
    quick = await _answers(tmp_path / "quick", seed, quick=True)
    assert len(left) == 1, "the fast path took all but the first"
    assert await _answers(tmp_path / "slow", seed, quick=False) == quick
    assert len(left) == 1 + STEPS


async def test_a_follower_that_has_everything_needs_no_slow_twin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is what followers in sync ask again and again."""
    async with leading(tmp_path) as leader:
        follower = await leader.follower()
        follower.session_epoch = 0
        await follower.fetch(at(0))
        monkeypatch.delattr(plain_replica_fetch, "when_due")
        leader.append()
        assert offsets((await follower.fetch(at(0)))[0]) == [0]
        assert await follower.fetch(at(1)) == {}
        assert leader.partition().followers[2].end_offset == 1


async def test_what_is_uncommon_is_left_alone(tmp_path: Path) -> None:
    """Any cut frame, and any other session: nothing is changed by the try."""
    async with leading(tmp_path) as leader:
        follower = await leader.follower()
        follower.session_epoch = 0
        await follower.fetch(at(0))
        leader.append()
        session = leader.broker.replica_sessions.peek(follower.session_id, 1)
        assert session is not None
        good = follower.request(at(1, high_watermark=0))
        body = plain_body(good)

        header = RequestHeader(1, VERSION, 1)
        for size in range(len(body)):
            assert plain_replica_fetch.answer(body[:size], 0, header, leader.broker) is None
        other = [
            follower.request(at(1), forgotten=(0,)),
            follower.request(at(1, 7)),
        ]
        for field, value in (("session_id", 0), ("session_epoch", 2), ("rack_id", "r")):
            request = follower.request(at(1))
            setattr(request, field, value)
            other.append(request)
        follower.epoch += 1
        other.append(follower.request(at(1)))
        follower.epoch -= 1
        follower.node_id = 3
        other.append(follower.request(at(1)))
        for request in other:
            body = plain_body(request)
            assert plain_replica_fetch.answer(body, 0, header, leader.broker) is None
        assert session.epoch == 1
        assert leader.partition().followers[2].end_offset == 0


def plain_body(request: FetchRequest) -> memoryview:
    """A request without its size and its header."""
    frame = bytes(encode_request(request, VERSION, 1, None))
    return memoryview(frame)[4 + 8 + 2 + 1 :]

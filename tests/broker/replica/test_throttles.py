"""Throttles of replication: which replicas, how fast, and who is never held back."""

from pathlib import Path
from typing import NamedTuple

import pytest

from kwire.broker.replica.throttles import LONGEST_PAUSE_S, WINDOW_S, Throttles, updated
from kwire.metadata.changes import Change, ConfigChanged, apply
from kwire.metadata.image import ConfigResourceType, MetadataImage
from tests.broker.following import NODE, TOPIC_ID, answer, batch_at
from tests.broker.replica.test_fetcher import asks, following
from tests.handlers.followers import at, leading, offsets

TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER
REPLICAS = "leader.replication.throttled.replicas"
RATE = "leader.replication.throttled.rate"


class Broker(NamedTuple):
    """A broker with an image."""

    node_id: int
    image: MetadataImage


def image(*configs: tuple[ConfigResourceType, str, str, str]) -> MetadataImage:
    """An image with configs."""
    return apply(MetadataImage(), [ConfigChanged(*one) for one in configs], 1)


def test_the_rate_of_the_broker_counts_before_that_of_all():
    """And without one nothing is throttled."""
    assert updated(None, Broker(2, image((BROKER, "1", RATE, "5")))) is None
    found = updated(None, Broker(2, image((BROKER, "", RATE, "5"), (BROKER, "2", RATE, "7"))))
    assert found is not None
    assert (found.leader.rate, found.follower.rate) == (7, float("inf"))
    again = updated(found, Broker(2, image((BROKER, "", RATE, "5"))))
    assert again is found
    assert found.leader.rate == 5


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("*", [0, 1, 2]),
        ("0:2,1:3,2:2", [0, 2]),
        ("1:7", []),
        (None, []),
        (f"0:{'9' * 5000},{'9' * 5000}:2,1:2", [1]),
    ],
)
def test_a_topic_names_the_replicas(text: str | None, named: list[int]) -> None:
    """As pairs of a partition and a broker, or all."""
    configs = [] if text is None else [(TOPIC, "t", REPLICAS, text)]
    throttle = Throttles(Broker(2, image(*configs))).leader
    assert [index for index in range(3) if throttle.names("t", index)] == named
    assert not throttle.names("u", 0)


def test_the_rate_holds_over_seconds() -> None:
    """A long answer is paid for by a pause; a rate of 0 stops everything."""
    throttle = Throttles(Broker(2, MetadataImage())).leader
    throttle.set_rate(1000)
    copied, now_s = 0, 0.0
    while now_s < 100:
        pause_s = throttle.pause_s(now_s)
        if not pause_s:
            throttle.record(700, now_s)
            copied += 700
        now_s += pause_s or 0.001
    assert copied == pytest.approx(100_000, rel=0.02)
    throttle.set_rate(0)
    assert throttle.pause_s(now_s) == LONGEST_PAUSE_S
    throttle.set_rate(float("inf"))
    throttle.record(1 << 40, now_s)
    assert not throttle.pause_s(now_s)
    assert WINDOW_S < LONGEST_PAUSE_S


async def test_a_leader_holds_records_back_from_replicas_out_of_sync(tmp_path: Path) -> None:
    """Those in sync get them, as producers wait for them."""
    async with leading(tmp_path, isr=(1, 2)) as leader:
        first, second = await leader.follower(2), await leader.follower(3)
        leader.append(3)
        changes: list[Change] = [
            ConfigChanged(BROKER, "1", RATE, "1"),
            ConfigChanged(TOPIC, "orders", REPLICAS, "0:1"),
        ]
        await leader.broker.commit(lambda _image: changes)
        assert len(offsets((await second.fetch(at(0)))[0])) == 3
        told = await second.fetch(at(0))
        assert not told[0].records
        assert len(offsets((await first.fetch(at(0)))[0])) == 3
        await leader.broker.commit(lambda _image: [ConfigChanged(BROKER, "1", RATE, None)])
        assert leader.broker.throttles is None
        assert len(offsets((await second.fetch(at(0)))[0])) == 3


async def test_a_follower_holds_itself_back_while_it_isnt_in_sync(tmp_path: Path) -> None:
    """It leaves the partition out of its fetches; others go on."""
    async with following(tmp_path) as broker:
        name = "follower.replication.throttled.replicas"
        configs = image((TOPIC, "t", name, f"0:{NODE}"))
        broker.image = broker.image._replace(configs=configs.configs)
        broker.throttles = Throttles(broker)
        broker.throttles.follower.set_rate(1)
        broker.follow(broker.follower(0), broker.follower(1))
        await asks(broker, 0)
        broker.says(answer(records=batch_at(0, b"a"), high_watermark=9))
        await asks_without(broker)
        broker.says(answer(index=1, records=batch_at(0, b"a"), high_watermark=9))
        await asks(broker, 1, index=1)


async def asks_without(broker) -> None:
    """Wait until the partition 0 is left out of the session."""
    from kwire.testing.waiting import until

    def is_left_out() -> bool:
        request = broker.waiting
        return request is not None and any(
            topic.topic_id == TOPIC_ID and 0 in topic.partitions
            for topic in request.forgotten_topics_data
        )

    await until(is_left_out, what="the partition to be left out")

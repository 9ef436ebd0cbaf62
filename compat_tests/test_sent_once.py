"""Records sent once: kwire's transactional producer, retry topics and replay against any broker."""

import uuid

import pytest
import trio
from confluent_kafka import Producer

from compat_tests.reading import messages
from kwire.cli.profiles import parse_addresses
from kwire.client.cluster import open_cluster
from kwire.client.moving import Move, make_topic, marked, open_mover
from kwire.client.transactional_producer import NewRecord
from kwire.errors import KafkaError
from kwire.spark.dead_letters import retry_topic
from kwire.spark.replay_dead_letters import Selection, replay
from kwire.spark.retries import open_retries
from kwire.spark.settings import DeadLetters, PipelineSettings, SinkSettings, Source

TIMEOUT_S = 60


def committed_values(bootstrap: str, topic: str) -> list[bytes | None]:
    """What a stock consumer with read_committed reads from partition 0."""
    return [message.value() for message in messages(bootstrap, topic, 1)]


def move(topic: str, name: str, value: bytes) -> Move:
    """A record to send once."""
    return Move(name, topic, NewRecord(1_700_000_000_000, b"k", value, (("h", b"1"),)))


def test_transactions_of_kwires_client(bootstrap: str) -> None:
    """Many in a row, of several batches; a fenced producer leaves nothing; marks are read again."""
    topic = f"once-{uuid.uuid4().hex[:8]}"

    async def main() -> None:
        async with open_cluster(parse_addresses(bootstrap)) as cluster:
            await make_topic(cluster, topic, 1)
            first = await open_mover(cluster, f"{topic}-marks")
            large = [move(topic, f"l{n}", b"%d" % n + b"x" * 300_000) for n in range(5)]
            assert await first.send(large) == 5
            for n in range(20):
                assert await first.send([move(topic, f"s{n}", b"%d" % n)]) == 1
            second = await open_mover(cluster, f"{topic}-marks")
            with pytest.raises(KafkaError):
                await first.send([move(topic, "fenced", b"fenced")])
            assert await second.send([*large, move(topic, "new", b"new")]) == 1
            assert len(await marked(cluster, f"{topic}-marks")) == 26

    trio.run(main)
    values = committed_values(bootstrap, topic)
    wanted = [b"%d" % n + b"x" * 300_000 for n in range(5)]
    assert values == [*wanted, *(b"%d" % n for n in range(20)), b"new"]


def test_retry_topics_and_replay(bootstrap: str) -> None:
    """What a stock producer wrote goes back to its topic, once each."""
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    headers = {
        "kwire.source": f"{topic}/0/1",
        "kwire.error": "registry: away",
        "kwire.pipeline": topic,
    }
    producer = Producer({"bootstrap.servers": bootstrap})

    async def main() -> None:
        async with open_cluster(parse_addresses(bootstrap)) as cluster:
            await make_topic(cluster, topic, 1)
            await make_topic(cluster, f"{topic}-dead", 1)
            work = await open_retries(cluster, topic, (topic,), 1)
            due = {**headers, "kwire.attempt": "1", "kwire.due_ms": "1"}
            for _ in range(2):
                producer.produce(retry_topic(topic, topic, 1), b"again", headers=due)
                producer.produce(f"{topic}-dead", b"dead", headers=headers)
            assert producer.flush(TIMEOUT_S) == 0
            assert await work.move_due() == 1
            assert await work.move_due() == 0

    trio.run(main)
    source, letters = Source(bootstrap, (topic,)), DeadLetters(topic=f"{topic}-dead")
    settings = PipelineSettings(topic, source, SinkSettings("parquet"), "", dead_letters=letters)
    assert replay(settings, Selection(), to=None, execute=False).sent == 1
    assert replay(settings, Selection(), to=None, execute=True).sent == 1
    assert replay(settings, Selection(), to=None, execute=True).sent == 0
    assert committed_values(bootstrap, topic) == [b"again", b"dead"]

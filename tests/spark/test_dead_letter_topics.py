"""Retry topics and replay send each record once, also when they are interrupted."""

from collections.abc import Iterator

import pytest
import trio

from kwire.cli.profiles import parse_addresses
from kwire.client.cluster import Cluster, open_cluster
from kwire.client.configs import Resource, ResourceType, describe_configs
from kwire.client.deletion import delete_records
from kwire.client.group_offsets import commit_offsets
from kwire.client.leaders import TopicPartition
from kwire.client.moving import Move, Mover, make_topic, marked, open_mover
from kwire.client.topics import delete_topics
from kwire.client.transactional_producer import NewRecord
from kwire.errors import KafkaError
from kwire.spark.replay_dead_letters import Selection, replay
from kwire.spark.retries import Retries, open_retries
from kwire.spark.settings import (
    DeadLetters,
    PipelineSettings,
    SinkSettings,
    Source,
    WrongSetting,
)
from kwire.testing import Kafka, Record


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    """A broker for this module's tests."""
    with Kafka() as running:
        yield running


def retried(pipeline: str, place: str, attempt: int, due_ms: int, value: bytes = b"v") -> Record:
    """A record as the pipeline writes it to a retry topic."""
    headers = (
        ("own", b"1"),
        ("kwire.source", place.encode()),
        ("kwire.error", b"registry: away"),
        ("kwire.pipeline", pipeline.encode()),
        ("kwire.attempt", b"%d" % attempt),
        ("kwire.due_ms", b"%d" % due_ms),
    )
    return Record(value, b"key", headers, 0, 1000)


def test_what_is_due_goes_back_once(broker: Kafka) -> None:
    """Not before its time, in order, with its key, value, headers and the number of its attempt."""
    topic = broker.unique("orders")
    broker.topic(topic, partitions=1)
    now_ms = 5000

    async def main() -> None:
        nonlocal now_ms
        async with open_cluster(parse_addresses(broker.bootstrap)) as cluster:
            work = await open_retries(cluster, topic, (topic,), 2, lambda: now_ms)
            early, late = (
                retried(topic, "a/0/1", 1, 5000),
                retried(topic, "a/0/2", 1, 6000, b"late"),
            )
            broker.produce(f"{topic}-{topic}-retry-1", [early, early, late])
            assert await work.move_due() == 1
            assert await work.move_due() == 0
            now_ms = 6000
            assert await work.move_due() == 1
            # Without the group's offsets everything is read again: the marks stop it.
            again = {TopicPartition(f"{topic}-{topic}-retry-1", 0): 0}
            await commit_offsets(cluster, f"{topic}-retries", again)
            anew = await open_retries(cluster, topic, (topic,), 2, lambda: now_ms)
            assert await anew.move_due() == 0

    trio.run(main)
    found = broker.records(topic)
    assert [(one.key, one.value, one.timestamp) for one in found] == [
        (b"key", b"v", 1000),
        (b"key", b"late", 1000),
    ]
    assert dict(found[0].headers) == {
        "own": b"1",
        "kwire.source": b"a/0/1",
        "kwire.attempt": b"1",
    }


def test_each_pipeline_moves_its_own_records_only(broker: Kafka) -> None:
    """Two that read a topic have retry topics of their own; a record of another one stays."""
    topic = broker.unique("orders")
    broker.topic(topic, partitions=1)

    async def main() -> None:
        async with open_cluster(parse_addresses(broker.bootstrap)) as cluster:
            one, other = [
                await open_retries(cluster, name, (topic,), 1) for name in ("one", "other")
            ]
            own, foreign = retried("one", "a/0/1", 1, 0), retried("other", "a/0/2", 1, 0)
            broker.produce(f"one-{topic}-retry-1", [own, foreign, b"stranger"])
            assert [await work.move_due() for work in (one, other)] == [1, 0]

    trio.run(main)
    assert len(broker.records(topic)) == 1


def test_a_retry_topic_keeps_its_records_and_a_loss_is_told(
    broker: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    """Its retention has no end; what was deleted all the same is told once, with its offsets."""
    topic = broker.unique("orders")
    broker.topic(topic, partitions=1)
    name = f"p-{topic}-retry-1"

    async def main() -> None:
        async with open_cluster(parse_addresses(broker.bootstrap)) as cluster:
            work = await open_retries(cluster, "p", (topic,), 1)
            resource = Resource(ResourceType.TOPIC, name)
            [config] = await describe_configs(cluster, resource, ["retention.ms"])
            assert config.value == "-1"
            broker.produce(name, [retried("p", f"a/0/{n}", 1, 0) for n in range(3)])
            await delete_records(cluster, {TopicPartition(name, 0): 2})
            assert [await work.move_due() for _ in range(2)] == [1, 0]

    trio.run(main)
    [told] = [one for one in caplog.messages if "deleted offsets" in one]
    assert told.startswith(f"{name}-0 has deleted offsets 0 to 1")


def test_a_thread_moves_beside_a_pipeline(broker: Kafka) -> None:
    """It makes the retry topics, and works until the block ends."""
    topic = broker.unique("orders")
    broker.topic(topic, partitions=2)
    with Retries(topic, Source(broker.bootstrap, (topic,)), (0.1,)) as retries:
        assert retries.wait_ready(30)
        broker.produce(f"{topic}-{topic}-retry-1", [retried(topic, "a/0/1", 1, 0)])
        broker.wait_for_records(topic, 1)


def test_a_transaction_that_fails_sends_nothing(broker: Kafka) -> None:
    """The producer that was fenced writes neither record nor mark."""
    topic = broker.unique("orders")
    broker.topic(topic)
    marks = f"{topic}-marks"

    async def main() -> None:
        async with open_cluster(parse_addresses(broker.bootstrap)) as cluster:
            first = await open_mover(cluster, marks)
            second = await open_mover(cluster, marks)
            with pytest.raises(KafkaError):
                await first.send([_move(topic, "a/0/1")])
            assert await second.send([_move(topic, "a/0/1"), _move(topic, "a/0/1")]) == 1
            assert await marked(cluster, marks) == {"a/0/1"}
            assert await _sends(cluster, marks, topic, "a/0/2") == 1

    trio.run(main)
    assert len(broker.records(topic)) == 2


async def _sends(cluster: Cluster, marks: str, topic: str, place: str) -> int:
    mover: Mover = await open_mover(cluster, marks)
    return await mover.send([_move(topic, "a/0/1"), _move(topic, place)])


def _move(topic: str, place: str) -> Move:
    return Move(place, topic, NewRecord(1, b"k", b"v"))


def dead_letter(place: str, error: str, value: bytes | None, *more: tuple[str, bytes]) -> Record:
    """A record as the pipeline writes it to its topic of dead letters."""
    headers = (
        ("own", b"1"),
        ("kwire.source", place.encode()),
        ("kwire.error", error.encode()),
        ("kwire.timestamp_ms", b"1234"),
        ("kwire.failed_ms", b"5000"),
        *more,
    )
    return Record(value, b"key", headers, 0, 9000)


def pipeline(broker: Kafka, topic: str, dead: str, **options: object) -> PipelineSettings:
    """Settings with a topic of dead letters."""
    source = Source(broker.bootstrap, (topic,))
    letters = DeadLetters(topic=dead, **options)
    return PipelineSettings(topic, source, SinkSettings("parquet"), "", dead_letters=letters)


def test_dead_letters_are_replayed_once(broker: Kafka) -> None:
    """A plan first; then what was selected, once each, as it was; then nothing any more."""
    topic = broker.unique("orders")
    dead = f"{topic}-dead"
    broker.topic(topic, records=["zero", b"x" * 50])
    large = dead_letter(f"{topic}/0/1", "value: large", None, ("kwire.value_bytes", b"50"))
    gone = dead_letter(f"{topic}/0/7", "value: large", None, ("kwire.value_bytes", b"9"))
    first = dead_letter("old/0/1", "value: it is no JSON", b"one")
    second = dead_letter(f"{topic}/1/1", "registry: away", b"two")
    broker.topic(dead, records=[first, first, second, large, gone, b"stranger"])
    settings = pipeline(broker, topic, dead)

    plan = replay(settings, Selection(), to=None, execute=False)
    assert (plan.selected, plan.sent, plan.sent_before) == (4, 4, 0)
    assert plan.by_error == {"value: it is no JSON": 1, "registry: away": 1, "value: large": 2}
    assert len(broker.records(topic)) == 2

    only = Selection(error="REGISTRY", topics=(topic,), since_ms=5000, until_ms=5001)
    done = replay(settings, only, to=None, execute=True)
    assert (done.selected, done.sent) == (1, 1)
    rest = replay(settings, Selection(), to=topic, execute=True)
    assert (rest.selected, rest.sent, rest.sent_before, rest.lost) == (4, 2, 1, 1)
    again = replay(settings, Selection(), to=topic, execute=True)
    assert (again.sent, again.sent_before) == (0, 3)
    found = broker.records(topic)[2:]
    assert sorted(one.value or b"" for one in found) == [b"one", b"two", b"x" * 50]
    sent = next(one for one in found if one.value == b"two")
    assert (sent.timestamp, sent.key) == (1234, b"key")
    assert dict(sent.headers) == {"own": b"1", "kwire.source": f"{topic}/1/1".encode()}


def test_a_record_that_cannot_be_read_is_not_sent(broker: Kafka) -> None:
    """Its dead letter has neither key nor value: it would be a tombstone of no key."""
    topic = broker.unique("orders")
    dead = f"{topic}-dead"
    broker.topic(topic)
    one = dead_letter(f"{topic}/0/1", "record: the rest of its batch can't be read", None)
    broker.topic(dead, records=[one._replace(key=None)])
    for _ in range(2):
        done = replay(pipeline(broker, topic, dead), Selection(), to=None, execute=True)
        assert (done.selected, done.sent, done.sent_before, done.lost) == (1, 0, 0, 1)
    assert broker.records(topic) == []


def test_each_pipeline_replays_its_own_dead_letters(broker: Kafka) -> None:
    """Two pipelines may share a topic of dead letters; earlier versions named none."""
    topic = broker.unique("orders")
    dead = f"{topic}-dead"
    broker.topic(topic)
    own, other = (("kwire.pipeline", one.encode()) for one in (topic, "another"))
    broker.topic(
        dead,
        records=[
            dead_letter(f"{topic}/0/1", "value: bad", b"own", own),
            dead_letter(f"{topic}/0/2", "value: bad", b"other", other),
            dead_letter(f"{topic}/0/3", "value: bad", b"nobody's"),
        ],
    )
    assert replay(pipeline(broker, topic, dead), Selection(), to=None, execute=True).sent == 2
    assert sorted(one.value or b"" for one in broker.records(topic)) == [b"nobody's", b"own"]


def test_a_topic_created_again_has_dead_letters_of_its_own(broker: Kafka) -> None:
    """A mark of the old topic doesn't stop them; a large value isn't taken from the new topic."""
    topic = broker.unique("orders")
    dead = f"{topic}-dead"
    old_id = _make_topic(broker, topic, ["zero"])
    old = ("kwire.topic_id", old_id.encode())
    large = dead_letter(f"{topic}/0/1", "value: large", None, ("kwire.value_bytes", b"50"), old)
    broker.topic(dead, records=[dead_letter(f"{topic}/0/0", "value: bad", b"old", old), large])
    settings = pipeline(broker, topic, dead)
    only = Selection(error="bad")
    assert replay(settings, only, to=None, execute=True).sent == 1

    new_id = _make_topic(broker, topic, ["zero", b"x" * 50])
    new = ("kwire.topic_id", new_id.encode())
    broker.produce(dead, [dead_letter(f"{topic}/0/0", "value: bad", b"new", new)])
    done = replay(settings, Selection(), to=None, execute=True)
    assert (done.sent, done.sent_before, done.lost) == (1, 1, 1)
    assert [one.value for one in broker.records(topic)] == [b"zero", b"x" * 50, b"new"]


def test_a_topic_created_again_has_retries_of_its_own(broker: Kafka) -> None:
    """A record at the place of an old one that was sent back is sent back too."""
    topic = broker.unique("orders")
    broker.topic(topic, partitions=1)

    async def main() -> None:
        async with open_cluster(parse_addresses(broker.bootstrap)) as cluster:
            work = await open_retries(cluster, topic, (topic,), 1)
            for id_ in (b"1", b"2", b"2"):
                one = retried(topic, "a/0/1", 1, 0, id_)
                headers = (*one.headers, ("kwire.topic_id", id_))
                broker.produce(f"{topic}-{topic}-retry-1", [one._replace(headers=headers)])
                await work.move_due()

    trio.run(main)
    assert [one.value for one in broker.records(topic)] == [b"1", b"2"]


def _make_topic(broker: Kafka, topic: str, records: list[str | bytes]) -> str:
    """Create a topic, again if it is there; its id."""

    async def main() -> str:
        async with open_cluster(parse_addresses(broker.bootstrap)) as cluster:
            await delete_topics(cluster, [topic])
            await make_topic(cluster, topic, 1)
            return (await cluster.topics([topic]))[topic].topic_id.hex()

    found = trio.run(main)
    broker.produce(topic, records)
    return found


def test_what_cannot_connect_is_said(broker: Kafka) -> None:
    """A login that isn't complete; a pipeline without dead letters has nothing to replay."""
    source = Source(broker.bootstrap, ("t",), client={"security.protocol": "SASL_SSL"})
    with pytest.raises(WrongSetting, match=r"source\.client\.sasl\.mechanism"):
        Retries("p", source, (1.0,))
    none = PipelineSettings("p", source, SinkSettings("parquet"), "")
    with pytest.raises(ValueError, match="keeps none"):
        replay(none, Selection(), to=None, execute=False)

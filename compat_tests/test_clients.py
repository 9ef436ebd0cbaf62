"""Producers and consumers: what one client writes, every client reads, byte for byte."""

import time

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from compat_tests.clients import (
    CODEC_OPTION,
    CONSUMERS,
    PRODUCERS,
    QUIET,
    READ_TIMEOUT_S,
    Row,
    consume_confluent,
    produce_confluent,
    produce_kafka_python,
)
from compat_tests.conftest import Names
from tests.support.topics import create_topics

CODECS = (None, "gzip", "snappy", "lz4", "zstd")

ROWS: list[Row] = [
    (b"key-%d" % n, b"value-%d " % n * (n % 50), [("n", b"%d" % n)]) for n in range(300)
] + [(None, b"no key", []), (b"tombstone", None, []), (b"", b"", [("empty", b"")])]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec or "none")
@pytest.mark.parametrize("producer", PRODUCERS)
def test_every_client_reads_what_each_wrote(
    bootstrap: str, names: Names, producer: str, codec: str | None
) -> None:
    """Keys, values, headers, nulls and empty strings, in every codec."""
    topic = names.topic("matrix")
    create_topics(bootstrap, topic)
    options = {} if codec is None else {CODEC_OPTION[producer]: codec}
    PRODUCERS[producer](bootstrap, topic, ROWS, **options)
    for consume in CONSUMERS.values():
        assert consume(bootstrap, topic, len(ROWS)) == ROWS


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(bootstrap: str, names: Names, acks: int | str) -> None:
    """Whatever acknowledgement is asked for, the records arrive in order."""
    topic = names.topic("acks")
    create_topics(bootstrap, topic)
    produce_kafka_python(bootstrap, topic, ROWS, acks=acks, enable_idempotence=False)
    assert consume_confluent(bootstrap, topic, len(ROWS)) == ROWS


@pytest.mark.parametrize("producer", PRODUCERS)
def test_idempotent_producers(bootstrap: str, names: Names, producer: str) -> None:
    """An idempotent producer's records are there once and in order."""
    topic = names.topic("idempotent")
    create_topics(bootstrap, topic)
    option = "enable.idempotence" if producer == "confluent" else "enable_idempotence"
    for part in (ROWS[:100], ROWS[100:]):
        PRODUCERS[producer](bootstrap, topic, part, **{option: True})
    assert consume_confluent(bootstrap, topic, len(ROWS)) == ROWS


def test_large_records(bootstrap: str, names: Names) -> None:
    """Records up to max.message.bytes are taken, larger ones refused with MSG_SIZE_TOO_LARGE."""
    topic = names.topic("large")
    create_topics(bootstrap, topic, max_message_bytes="2000000")
    row: Row = (b"k", bytes(1_900_000), [])
    produce_confluent(bootstrap, topic, [row], **{"message.max.bytes": 5_000_000})
    assert consume_confluent(bootstrap, topic, 1) == [row]
    producer = Producer(
        {"bootstrap.servers": bootstrap, "message.max.bytes": 5_000_000}, logger=QUIET
    )
    errors = []
    producer.produce(topic, bytes(2_100_000), on_delivery=lambda error, _: errors.append(error))
    producer.flush(READ_TIMEOUT_S)
    assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_a_topic_is_created_by_its_first_use(bootstrap: str, names: Names) -> None:
    """Producing to a topic that doesn't exist creates it."""
    topic = names.topic("auto")
    produce_confluent(bootstrap, topic, ROWS[:10])
    assert consume_confluent(bootstrap, topic, 10) == ROWS[:10]


def test_offsets_by_time(bootstrap: str, names: Names) -> None:
    """offsets_for_times finds the first record whose timestamp isn't smaller, or the end."""
    topic = names.topic("times")
    create_topics(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "gzip"}, logger=QUIET)
    start = int(time.time() * 1000) - 100_000
    for n in range(1000):
        producer.produce(topic, b"%d" % n, timestamp=start + n * 10)
    producer.flush(READ_TIMEOUT_S)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"}, logger=QUIET)
    asked = {start - 5: 0, start: 0, start + 4_995: 500, start + 9_990: 999, start + 9_991: -1}
    for timestamp, offset in asked.items():
        found = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], READ_TIMEOUT_S)
        assert found[0].offset == offset
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0)) == (0, 1000)
    consumer.close()


def test_an_offset_out_of_range_is_reset(bootstrap: str, names: Names) -> None:
    """auto.offset.reset decides where a consumer goes that asks beyond the end."""
    topic = names.topic("reset")
    create_topics(bootstrap, topic)
    produce_confluent(bootstrap, topic, ROWS[:10])
    config = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer(config | {"auto.offset.reset": "earliest"}, logger=QUIET)
    consumer.assign([TopicPartition(topic, 0, 5000)])
    message = consumer.poll(READ_TIMEOUT_S)
    assert message is not None
    assert (message.error(), message.offset()) == (None, 0)
    consumer.close()
    strict = Consumer(config | {"auto.offset.reset": "error"}, logger=QUIET)
    strict.assign([TopicPartition(topic, 0, 5000)])
    message = strict.poll(READ_TIMEOUT_S)
    assert message is not None
    assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    strict.close()


def test_a_topic_created_anew_has_another_id(bootstrap: str, names: Names) -> None:
    """Deleted and created again a topic is another one, empty, and clients go on with it."""
    topic = names.topic("anew")
    client = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    ids = []
    for rows in (ROWS[:20], ROWS[20:50]):
        create_topics(bootstrap, topic)
        produce_confluent(bootstrap, topic, rows)
        assert consume_confluent(bootstrap, topic, len(rows)) == rows
        described = client.describe_topics(TopicCollection([topic]))[topic].result(READ_TIMEOUT_S)
        ids.append(str(described.topic_id))
        client.delete_topics([topic])[topic].result(READ_TIMEOUT_S)
    assert ids[0] != ids[1]


def test_consumers_see_nothing_of_a_missing_topic(bootstrap: str, names: Names) -> None:
    """A consumer that may not create topics is told that there is none."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": names.group(),
            "allow.auto.create.topics": False,
        },
        logger=QUIET,
    )
    missing = names.topic("missing")
    with pytest.raises(KafkaException) as caught:
        consumer.get_watermark_offsets(TopicPartition(missing, 0), READ_TIMEOUT_S)
    assert caught.value.args[0].code() in (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    )
    consumer.close()

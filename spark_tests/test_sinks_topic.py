"""The kind topic: each row once for readers of committed records, whatever runs again."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kwire.spark.settings import Source, WrongSetting
from kwire.spark.sinks.topic import TopicSink, group_of
from spark_tests.rows import TIMEOUT_S, end_offsets
from spark_tests.sink_rows import batch, records, rows_of, settings


def sink_of(broker: str, topic: str, **options: Any) -> TopicSink:
    """A sink into a topic."""
    sink = TopicSink(settings("topic", topic=topic, **options), Source(broker, ("orders",)), "p")
    sink.check()
    return sink


def committed(broker: str, topic: str, partitions: int) -> list[Any]:
    """The committed records of a topic, by a stock consumer."""
    config = {
        "group.id": "unused",
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    consumer = Consumer({"bootstrap.servers": broker, **config})
    consumer.assign([TopicPartition(topic, one, 0) for one in range(partitions)])
    found, ended = [], set()
    while len(ended) < partitions:
        message = consumer.poll(TIMEOUT_S)
        if message.error():
            ended.add(message.partition())
        else:
            found.append(message)
    consumer.close()
    return found


def numbers(messages: list[Any]) -> list[str]:
    """The values, in order."""
    return sorted(message.value().decode() for message in messages)


def wanted(rows: DataFrame) -> list[str]:
    """The values that rows have to become."""
    return sorted(f'{{"n":{row.n}}}' for row in rows.collect())


@pytest.mark.both_lanes
def test_a_batch_that_runs_again_is_there_once(
    spark: SparkSession, broker: str, new_topic: Callable[..., str]
) -> None:
    """Also an older one, by a new sink; another query writes its own."""
    topic = new_topic(2)
    one, two = batch(0, 0, 50), batch(1, 50, 60)
    for again in (one, two, two, one):
        sink = sink_of(broker, topic)
        sink.open(spark)
        sink.write(rows_of(spark, again), again)
    both = rows_of(spark, one).union(rows_of(spark, two))
    assert numbers(committed(broker, topic, 2)) == wanted(both)
    other = batch(0, 0, 5, query="another")
    sink_of(broker, topic).write(rows_of(spark, other), other)
    assert len(committed(broker, topic, 2)) == 130


def test_a_batch_that_failed_halfway_is_there_once(
    spark: SparkSession, broker: str, new_topic: Callable[..., str]
) -> None:
    """A task dies after it has sent rows: they stay invisible, and the next attempt sends all."""
    topic = new_topic(2, **{"max.message.bytes": "1000"})
    one = batch(0, 0, 50, partitions=1)
    rows = rows_of(spark, one)
    right = f.to_json(f.struct("n"))
    wrong = f.repeat(f.lit("x"), 2000)  # which the broker refuses, after it has taken others
    broken = rows.withColumn("value", f.when(f.col("_offset") == 49, wrong).otherwise(right))
    alone = {"batch.num.messages": "1"}
    with pytest.raises(Exception, match="MSG_SIZE_TOO_LARGE"):
        sink_of(broker, topic, client=alone).write(broken, one)
    assert sum(end_offsets(broker, topic, 2)) > 0, "nothing was sent before the failure"
    assert committed(broker, topic, 2) == []
    sink_of(broker, topic).write(rows, one)
    assert numbers(committed(broker, topic, 2)) == wanted(rows)


def test_a_task_that_was_given_up_writes_nothing(
    spark: SparkSession, broker: str, new_topic: Callable[..., str]
) -> None:
    """Its transaction is open while the next attempt runs: that one fences it."""
    topic = new_topic(1)
    one = batch(0, 0, 5, partitions=1)
    identity = f"{group_of(one)}-orders-0"
    zombie = Producer({"bootstrap.servers": broker, "transactional.id": identity})
    zombie.init_transactions(TIMEOUT_S)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie")
    zombie.flush(TIMEOUT_S)
    sink_of(broker, topic).write(rows_of(spark, one), one)
    with pytest.raises(Exception, match="FENCED"):
        zombie.commit_transaction(TIMEOUT_S)
    assert numbers(committed(broker, topic, 1)) == wanted(rows_of(spark, one))


def test_what_a_record_has(spark: SparkSession, broker: str, new_topic: Callable[..., str]) -> None:
    """Key, timestamp and headers of the source; own columns key and value; tombstones."""
    topic = new_topic(1)
    one = batch(0, 0, 2, partitions=1)
    header = f.array(
        f.struct(f.lit("h").alias("key"), f.encode(f.lit("x"), "utf-8").alias("value"))
    )
    rows = records(spark, [(0, 0, "a", {"n": 1}), (0, 1, "b", None)])
    sink_of(broker, topic).write(rows.withColumn("_headers", header), one)
    live, dead = committed(broker, topic, 1)
    assert (live.key(), live.value(), live.headers()) == (b"a", b'{"n":1}', [("h", b"x")])
    assert live.timestamp()[1] == 1_700_000_000_000
    assert (dead.key(), dead.value()) == (b"b", None)
    own = rows.limit(1).select("*", f.lit(7).alias("key"), f.lit("text").alias("value"))
    sink_of(broker, topic, headers=False).write(own, batch(1, 0, 3, partitions=1))
    last = committed(broker, topic, 1)[-1]
    assert (last.key(), last.value(), last.headers()) == (b"7", b"text", None)


def test_wrong_options_are_named() -> None:
    """The option, its value and what is allowed."""
    for options in ({}, {"topic": "orders"}):
        with pytest.raises(WrongSetting, match=r"sink\.topic"):
            TopicSink(settings("topic", **options), Source("h:1", ("orders",)), "p").check()
    source = Source("h:1", ("orders",), client={"sasl.jaas.config": "…"})
    with pytest.raises(WrongSetting, match="librdkafka"):
        TopicSink(settings("topic", topic="t"), source, "p").check()

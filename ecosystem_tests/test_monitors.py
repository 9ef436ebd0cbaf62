"""Programs that watch groups: what they tell is what the group has not read."""

import json
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.conftest import Names
from tests.support.topics import create_topics

PATIENCE_S = 120


@pytest.mark.runs("kafkatop", "kafkatop", "shows groups with members; `--all` shows the others too")
def test_the_lag_of_a_group(bootstrap: str, names: Names, python: Path) -> None:
    """Of a group with a member, as JSON: its state, and the largest and least lag of a topic."""
    topic, group = names.topic("orders"), names.group("billing")
    create_topics(bootstrap, topic, partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    assert len(consumer.consume(10, timeout=PATIENCE_S)) == 10
    offsets = [TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 0)]
    consumer.commit(offsets=offsets, asynchronous=False)
    told = subprocess.run(
        [python.with_name("kafkatop"), "--kafka-broker", bootstrap, "--summary-json", "--text"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    consumer.close()
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)[group]
    assert found["state"].endswith("STABLE")
    assert found["topics"][topic] == {"partitions": 2, "lag_max": 6, "lag_min": 0}

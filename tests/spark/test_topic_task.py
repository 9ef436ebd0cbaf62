"""What a task of the sink ``topic`` asks before it writes; the consumer follows a script."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kwire.spark.sinks import topic_task

PLACE = TopicPartition("rows", 0)


class Consumer:
    """Answers with offsets and errors, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def committed(self, places: list[TopicPartition], timeout_s: float) -> list[Any]:
        """The next answer; an error is raised."""
        answer = self.answers.pop(0)
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return [answer]


class Found:
    """A partition's offset, or its error."""

    def __init__(self, offset: int, error: KafkaError | None = None) -> None:
        self.offset = offset
        self.error = error


def test_a_coordinator_that_moves_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka doesn't, and the first group of an Apache Kafka meets it."""
    monkeypatch.setattr(topic_task, "ASK_AGAIN_S", 0)
    unstable = Found(-1001, KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT))
    consumer = Consumer(
        KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, unstable, Found(7)
    )
    assert topic_task.committed_offset(consumer, PLACE) == 7
    assert consumer.answers == []


@pytest.mark.parametrize("is_raised", [True, False])
def test_an_error_is_no_offset(monkeypatch: pytest.MonkeyPatch, *, is_raised: bool) -> None:
    """Rows would be written twice if it counted as a group without an offset."""
    refused = KafkaError.GROUP_AUTHORIZATION_FAILED
    answer = refused if is_raised else Found(-1001, KafkaError(refused))
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        topic_task.committed_offset(Consumer(answer), PLACE)
    monkeypatch.setattr(topic_task, "TIMEOUT_S", 0)
    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        topic_task.committed_offset(Consumer(KafkaError.NOT_COORDINATOR), PLACE)


def test_a_group_without_an_offset() -> None:
    """Nothing of the source partition was written yet."""
    assert topic_task.committed_offset(Consumer(Found(-1001)), PLACE) < 0

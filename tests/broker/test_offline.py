"""A log that can't be made takes its partition offline, and nothing else."""

from pathlib import Path

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.controller import NewTopic, create_topic
from kwire.testing.in_process import running_server


async def test_a_partition_whose_directory_cannot_be_made(tmp_path: Path) -> None:
    """KAFKA_STORAGE_ERROR for it; the broker and its other partitions go on."""
    async with running_server(tmp_path) as running:
        broker = running.broker
        (tmp_path / "blocked-1").write_text("in the way", encoding="utf-8")
        await broker.commit(
            lambda image: create_topic(image, NewTopic("blocked", 3, 1), broker.random)
        )
        with pytest.raises(KafkaError) as caught:
            broker.partition("blocked", 1)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert [broker.partition("blocked", index).index for index in (0, 2)] == [0, 2]
        with pytest.raises(KafkaError) as caught:
            broker.partition("blocked", 3)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

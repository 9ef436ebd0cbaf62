"""A log that can't be made takes its partition offline, and nothing else."""

import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import TopicDeleted
from kwire.metadata.controller import NewTopic, create_topic
from kwire.metadata.image import TopicImage
from kwire.testing.waiting import until
from tests.support.in_process import running_server


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


async def test_a_name_that_is_used_again_while_it_is_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log that opens later is the new topic's; another one would be put aside at a restart."""
    async with running_server(tmp_path) as server:
        broker, served = server.broker, server.broker._served
        real, begun, goes_on = served._open_log, threading.Event(), threading.Event()
        tried: set[bytes] = set()

        def open_log(topic: TopicImage, *rest: Any, **more: Any) -> Any:
            if topic.topic_id not in tried:
                tried.add(topic.topic_id)
                return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
            if topic.name == "a":
                begun.set()
                goes_on.wait(60)
            return real(topic, *rest, **more)

        async def create(name: str) -> None:
            wanted = NewTopic(name, 1, 1)
            await broker.commit(lambda image: create_topic(image, wanted, broker.random))

        monkeypatch.setattr(served, "_open_log", open_log)
        await create("a")
        await create("t")
        old = broker.image.topics_by_name["t"].topic_id
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.retry_offline)
            await until(begun.is_set)
            await broker.commit(lambda _: [TopicDeleted(old)])
            nursery.start_soon(create, "t")
            await until(lambda: served._changing.statistics().tasks_waiting == 1)
            goes_on.set()
        new = broker.image.topics_by_name["t"].topic_id
        assert len(tried) == 3
        assert broker.partition("t", 0).topic_id == new != old
        assert broker.partition("t", 0).log.topic_id == new

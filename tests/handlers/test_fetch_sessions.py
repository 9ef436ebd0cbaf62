"""Who fetches in a session knows what it would be told without one, whatever happens."""

from pathlib import Path
from random import Random

import pytest

from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kwire.record.records import BatchBuilder
from tests.support.in_process import RawClient, RunningServer, running_server

VERSION = 12
NOW_MS = 1_700_000_000_000
STEPS = 150
PARTITIONS = 4
DOOMED = "doomed"
TOPICS = ("orders", DOOMED)

Key = tuple[str, int]


class Consumer:
    """Fetches some partitions in a session; ``known`` is what it was told last of each."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.wanted = {
            (topic, index): FetchPartition(partition=index, partition_max_bytes=1000)
            for topic in TOPICS
            for index in range(PARTITIONS)
        }
        self.changed = set(self.wanted)
        self.known: dict[Key, PartitionData] = {}
        self._session = 0
        self._epoch = 0

    async def _fetch(self, keys: set[Key], session: tuple[int, int]) -> FetchResponse:
        topics = [
            FetchTopic(topic=name, partitions=[self.wanted[key] for key in sorted(some)])
            for name in TOPICS
            if (some := {key for key in keys if key[0] == name})
        ]
        request = FetchRequest(
            max_wait_ms=0, session_id=session[0], session_epoch=session[1], topics=topics
        )
        return await self.client.request(request, VERSION, FetchResponse)

    async def fetch(self) -> dict[Key, PartitionData]:
        """What an incremental fetch tells."""
        response = await self._fetch(self.changed, (self._session, self._epoch))
        assert response.error_code == 0
        self._session = response.session_id
        self._epoch += 1
        self.changed.clear()
        told = by_key(response)
        self.known |= told
        return told

    async def fetch_all(self) -> dict[Key, PartitionData]:
        """What a fetch of the same tells outside of any session."""
        return by_key(await self._fetch(set(self.wanted), (0, -1)))

    def change(self, key: Key, **fields: int) -> None:
        """Want something else of a partition."""
        for name, value in fields.items():
            setattr(self.wanted[key], name, value)
        self.changed.add(key)


def by_key(response: FetchResponse) -> dict[Key, PartitionData]:
    """The partitions of an answer."""
    return {
        (topic.topic, data.partition_index): data
        for topic in response.responses
        for data in topic.partitions
    }


async def something_happens(running: RunningServer, consumer: Consumer, random: Random) -> None:
    """To a partition, or to what the consumer wants of it."""
    key = random.choice(list(consumer.wanted))
    partition = running.broker.partition_if_served(*key)
    chance = random.random()
    if partition is None or chance < 0.05:
        consumer.change(key, current_leader_epoch=random.choice([-1, 0, 7]))
    elif chance < 0.4:
        builder = BatchBuilder()
        builder.add(NOW_MS, None, random.randbytes(20))
        partition.append(builder.build(), now_ms=NOW_MS)
    elif chance < 0.5:
        partition.delete_records(random.randint(0, partition.high_watermark))
    elif chance < 0.8:
        consumer.change(key, fetch_offset=partition.high_watermark)
    else:
        consumer.change(key, fetch_offset=random.randint(0, partition.high_watermark))


@pytest.mark.parametrize("seed", range(2))
async def test_a_session_tells_all_that_is_news_and_nothing_else(tmp_path: Path, seed: int) -> None:
    """Which partitions are quiet is told by a fast path; outside of sessions all are looked at."""
    random = Random(seed)
    async with running_server(tmp_path) as running:
        for name in TOPICS:
            await running.topic(name, PARTITIONS)
        consumer = Consumer(await running.connect())
        untold = 0
        for step in range(STEPS):
            await something_happens(running, consumer, random)
            if step == STEPS * 2 // 3:
                deletion = DeleteTopicsRequest(topic_names=[DOOMED], timeout_ms=1000)
                await consumer.client.request(deletion, 5, DeleteTopicsResponse)
            before = dict(consumer.known)
            told = await consumer.fetch()
            expected = await consumer.fetch_all()
            for key, data in expected.items():
                news = bool(data.records or data.error_code) or differs(data, before.get(key))
                assert news == (key in told)
                untold += not news
                assert not differs(data, consumer.known[key])
                if news:
                    assert bytes(told[key].records or b"") == bytes(data.records or b"")
        assert untold > STEPS
        await consumer.client.aclose()


def differs(data: PartitionData, known: PartitionData | None) -> bool:
    """Whether a partition is known to be in another state."""
    return known is None or (
        (data.error_code, data.high_watermark, data.log_start_offset)
        != (known.error_code, known.high_watermark, known.log_start_offset)
    )

"""A group on the page of one broker of three: what the others know of the partitions they lead."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from confluent_kafka import AcknowledgeType, Consumer, ShareConsumer, TopicPartition

from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.testing.kafka_cluster import KafkaCluster
from kwire.testing.waiting import wait_until
from kwire.web.page import ends
from kwire.web.page.ends import Ends, OtherLeaders


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """Three brokers with a page each."""
    with KafkaCluster({"kwire.http.listen": "127.0.0.1:0"}) as made:
        yield made


def test_the_lag_of_partitions_that_others_lead(cluster: KafkaCluster) -> None:
    """In the table, in the sum and in the list, on the page of the coordinator."""
    records = [(f"key-{number}", "value") for number in range(90)]
    cluster.topic("orders", partitions=9, records=records)
    assert len({cluster.leader("orders", index) for index in range(9)}) > 1
    counts = [
        sum(one.partition == index for one in cluster.records("orders")) for index in range(9)
    ]
    assert all(counts)
    client = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "billing"})
    client.commit(
        offsets=[TopicPartition("orders", index, 1) for index in range(9)], asynchronous=False
    )
    client.close()
    with httpx.Client(base_url=cluster.http(cluster.coordinator("billing")), timeout=30) as http:
        text = http.get("/group?id=billing").text
        lags = re.findall(r'<td class="num">([\d,]*) *</td>\s*<td><bdi>', text)
        assert [int(lag) for lag in lags] == [count - 1 for count in counts]

        def has_the_sum() -> bool:
            return http.get("/group.json?id=billing").json()["shown"]["lag"] == "81"

        wait_until(has_the_sum, what="a sample with the lag")
        assert ">81</td>" in http.get("/groups").text
        assert "missing in the lag" not in text


def test_a_queue_whose_partitions_others_lead(cluster: KafkaCluster) -> None:
    """Its page shows who has which records of every partition, in the place of the others' too."""
    cluster.topic("jobs", partitions=9)
    assert len({cluster.leader("jobs", index) for index in range(9)}) > 1
    mode = {"share.acknowledgement.mode": "explicit"}
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "workers", "client.id": "one"}
    worker = ShareConsumer(settings | mode)
    worker.subscribe(["jobs"])

    def has_partitions() -> bool:
        worker.poll(0.1)
        return len(cluster.share_state("workers").start_offsets) == 9

    wait_until(has_partitions, timeout_s=60, what="a share state of each partition")
    cluster.produce("jobs", ["value"] * 9)  # without keys: one in each partition
    coordinator = cluster.coordinator("workers")
    held: list[int] = []

    def has_records_of_others() -> bool:
        messages = list(worker.poll(0.5) or [])
        held.extend(one.partition() for one in messages)
        if any(cluster.leader("jobs", index) != coordinator for index in held):
            return True
        for one in messages:
            worker.acknowledge(one, AcknowledgeType.ACCEPT)
        held.clear()
        return False

    wait_until(has_records_of_others, timeout_s=60, what="records of another broker")
    text = httpx.get(f"{cluster.http(coordinator)}/group?id=workers", timeout=30).text
    assert "No answer from" not in text
    shown = r'<td class="num">(\d)</td>\s*<td class="num"><a[^>]*>0</a></td>\s*<td><bdi>one</bdi>'
    assert sorted(map(int, re.findall(shown, text))) == sorted(held)
    worker.close()


def a_broker(node_id: int, leaders: list[int], ask: Any) -> Any:
    """What ``OtherLeaders`` needs of a broker; its time is ``now_ms``."""
    broker = SimpleNamespace(node_id=node_id, now_ms=0, peers=SimpleNamespace(ask=ask))
    broker.clock = SimpleNamespace(steady_ms=lambda: broker.now_ms)
    topic = SimpleNamespace(partitions=leaders)
    broker.image = SimpleNamespace(topics_by_name={"orders": topic})
    broker.leader_of = lambda image, index: image.partitions[index]
    return broker


async def test_a_leader_that_is_silent_is_asked_again_later() -> None:
    """What it leads is left out; the others are asked meanwhile, and only for what they lead."""
    asked: list[tuple[int, int]] = []

    async def ask(node_id: int, request: ListOffsetsRequest, _: object) -> ListOffsetsResponse:
        [topic] = request.topics
        asked.append((node_id, topic.partitions[0].timestamp))
        if node_id == 3:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
        answers = [
            ListOffsetsPartitionResponse(
                partition_index=one.partition_index,
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER if one.partition_index == 4 else 0,
                offset=7 if one.timestamp == -1 else 2,
            )
            for one in topic.partitions
        ]
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=topic.name, partitions=answers)]
        )

    broker = a_broker(1, [1, 2, 3, -1, 2], ask)
    leaders = OtherLeaders()
    wanted = [("orders", index) for index in range(6)] + [("gone", 0)]
    assert await leaders.ends(broker, wanted) == {("orders", 1): Ends(2, 7)}
    assert sorted(asked) == [(2, -2), (2, -1), (3, -2)]
    asked.clear()
    await leaders.ends(broker, wanted)
    assert {node_id for node_id, _ in asked} == {2}
    broker.now_ms = ends.SILENT_MS
    asked.clear()
    await leaders.ends(broker, wanted)
    assert {node_id for node_id, _ in asked} == {2, 3}


async def test_so_many_partitions_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """In requests of so many each."""
    monkeypatch.setattr(ends, "MOST_ASKED", 5)
    monkeypatch.setattr(ends, "MOST_IN_REQUEST", 2)
    sizes: list[int] = []

    async def ask(_: int, request: ListOffsetsRequest, __: object) -> ListOffsetsResponse:
        sizes.append(len(request.topics[0].partitions))
        return ListOffsetsResponse(topics=[])

    broker = a_broker(1, [2] * 9, ask)
    assert await OtherLeaders().ends(broker, [("orders", index) for index in range(9)]) == {}
    assert sizes == [2, 2, 2, 2, 1, 1]

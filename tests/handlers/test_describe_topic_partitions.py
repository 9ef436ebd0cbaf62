"""DescribeTopicPartitions: topics in pages that add up to all of them."""

import pytest

from kwire.errors import ErrorCode
from kwire.handlers.lib.context import TOPIC_OPERATIONS
from kwire.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)

SIZES = {"a": 3, "b": 1, "c": 4}


@pytest.fixture
async def describe(server):
    """Asks for topics; topics a, b and c have 3, 1 and 4 partitions."""
    for name, size in SIZES.items():
        await server.topic(name, size)
    client = await server.connect()

    async def send(*names, limit=2000, cursor=None):
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=Cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None,
        )
        response = await client.request(request, 0, DescribeTopicPartitionsResponse)
        following = response.next_cursor
        rows = [(t.name, [p.partition_index for p in t.partitions]) for t in response.topics]
        end = (following.topic_name, following.partition_index) if following else None
        return response, rows, end

    return send


async def test_a_topic_in_full(server, describe):
    """Ids, leaders, replicas, and what may be done with it."""
    response, rows, end = await describe("b")
    assert (rows, end) == ([("b", [0])], None)
    (topic,) = response.topics
    assert topic.topic_id == server.broker.image.topics_by_name["b"].topic_id
    assert topic.topic_authorized_operations == TOPIC_OPERATIONS
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.leader_epoch) == (1, 0)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1], [1])
    assert (partition.eligible_leader_replicas, partition.offline_replicas) == ([], [])


async def test_topics_come_sorted_and_once(describe):
    """Whatever the order they are asked for in; none asked for means all."""
    assert (await describe("c", "a", "c"))[1] == [("a", [0, 1, 2]), ("c", [0, 1, 2, 3])]
    response, rows, _ = await describe()
    assert [name for name, _ in rows] == ["__consumer_offsets", "a", "b", "c", "orders"]
    assert [t.is_internal for t in response.topics] == [True, False, False, False, False]


@pytest.mark.parametrize("limit", [-1, 1, 2, 3, 4, 100])
async def test_pages_add_up(describe, limit):
    """Following the cursor every partition comes exactly once, a page at most as long as asked."""
    found, cursor = [], None
    while True:
        _, rows, cursor = await describe("a", "b", "c", limit=limit, cursor=cursor)
        page = [(name, index) for name, indexes in rows for index in indexes]
        assert 0 < len(page) <= max(limit, 1)
        found += page
        if cursor is None:
            break
    assert found == [(name, index) for name, size in SIZES.items() for index in range(size)]


async def test_topics_that_are_not_there(describe):
    """They have an error, and their place in the pages."""
    response, rows, end = await describe("a", "bad name", "nope", limit=3)
    assert (rows, end) == ([("a", [0, 1, 2])], ("bad name", 0))
    response, _, _ = await describe("bad name", "nope")
    assert [t.error_code for t in response.topics] == [
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


@pytest.mark.parametrize("cursor", [("x", 0), ("b", -1)])
async def test_a_cursor_that_makes_no_sense(describe, cursor):
    """It must point to a partition of a topic that is asked for."""
    response, _, end = await describe("a", "b", cursor=cursor)
    assert [t.error_code for t in response.topics] == [ErrorCode.INVALID_REQUEST] * 2
    assert end is None


async def test_a_cursor_behind_the_last_partition(describe):
    """The topic may have been created anew meanwhile: go on with the next one."""
    assert (await describe("a", "b", cursor=("a", 9)))[1] == [("a", []), ("b", [0])]


async def test_the_broker_limits_the_page_too(server, describe):
    """max.request.partition.size.limit counts whatever the client asks for."""
    server.broker.settings = {**server.broker.settings, "max.request.partition.size.limit": 2}
    assert (await describe("a"))[1:] == ([("a", [0, 1])], ("a", 2))

"""ExplainShareGroup over a socket: who has which records, and why records came again."""

import pytest

from kwire.errors import ErrorCode
from kwire.protocol.messages.explain_share_group import (
    ExplainShareGroupRequest,
    ExplainShareGroupResponse,
)
from tests.support.in_process import running_server
from tests.support.share_member import (
    ACCEPT,
    REJECT,
    RELEASE,
    ShareMember,
    acquired,
    begin_group,
)

GROUP, TOPIC = "workers", "orders"
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.delivery.count.limit": "2",
}


@pytest.fixture
async def server(tmp_path):
    """A running broker with the topic ``orders`` of ten records."""
    async with running_server(tmp_path, SETTINGS) as running:
        await running.topic(TOPIC)
        await running.produce(TOPIC, *(b"%d" % n for n in range(10)))
        yield running


@pytest.fixture
async def new_member(server):
    """Makes members of the group; each has a connection of its own."""
    topic_id = await begin_group(server, GROUP, TOPIC)

    async def make(name: str) -> ShareMember:
        return ShareMember(await server.connect(), GROUP, name, topic_id)

    return make


async def explained(server, max_ranges: int = 100, group: str = GROUP):
    """What the broker tells."""
    request = ExplainShareGroupRequest(group_id=group, max_ranges=max_ranges)
    return await server.request(request, 0, ExplainShareGroupResponse)


def ranges(row):
    """First and last offset, state, owner and deliveries."""
    return [
        (one.first_offset, one.last_offset, one.state, one.member_id, one.delivery_count)
        for one in row.ranges
    ]


async def test_records_in_flight_have_an_owner_and_deliveries(server, new_member):
    """Each range of records, the sums, and for how long members have had what."""
    first, second = await new_member("first"), await new_member("second")
    await first.fetch(partitions=(0,), max_records=4, mode=1)
    await second.fetch(partitions=(0,), max_records=3, mode=1)
    await first.acknowledge({0: [(1, 2, [ACCEPT]), (3, 3, [RELEASE])]})
    answer = await explained(server)
    [row] = answer.partitions
    assert (row.topic_name, row.partition_index, row.start_offset) == (TOPIC, 0, 0)
    assert (row.next_offset, row.end_offset) == (7, 10)
    assert ranges(row) == [
        (0, 0, 1, "first", 1),
        (1, 2, 2, "", 1),
        (3, 3, 0, "", 1),
        (4, 6, 1, "second", 1),
    ]
    assert (row.acquired, row.available, row.acknowledged, row.archived) == (4, 1, 2, 0)
    assert row.redelivered == 1
    assert {one.member_id: one.records for one in row.holders} == {"first": 1, "second": 3}
    for one in row.ranges:
        if one.member_id:
            assert one.held_ms >= 0
            assert 0 <= one.lock_left_ms <= 30_000
        else:
            assert (one.held_ms, one.lock_left_ms) == (-1, -1)
    counts = answer.counts
    assert (counts.acquired, counts.redelivered, counts.acknowledged) == (7, 0, 2)
    assert counts.released == 1


async def test_the_answer_is_as_long_as_was_asked(server, new_member):
    """The sums count all records, however few ranges are shown."""
    member = await new_member("first")
    await member.fetch(partitions=(0,), max_records=4, mode=1)
    await member.acknowledge({0: [(1, 1, [ACCEPT])]})
    answer = await explained(server, max_ranges=1)
    [row] = answer.partitions
    assert ranges(row) == [(0, 0, 1, "first", 1)]
    assert row.acquired == 3
    assert answer.has_more


async def test_it_says_why_a_record_came_again(server, new_member):
    """A release, a rejection, a lock that ended, a session that ended, and who serves it."""
    first, second = await new_member("first"), await new_member("second")
    await first.fetch(partitions=(0,), max_records=10, mode=1)
    await first.acknowledge({0: [(1, 2, [RELEASE]), (3, 3, [REJECT])]})
    server.broker.share_partitions.end_locks(GROUP)
    assert acquired(await second.fetch(partitions=(0,))) == [(0, 2, 2), (4, 9, 2)]
    second.epoch = -1
    await second.acknowledge({0: [(0, 0, [RELEASE])]})
    answer = await explained(server)
    begins, released, archived, ended, last, gone = (event.text for event in answer.events)
    assert begins.startswith("orders-0: this broker begins to serve it, in leader epoch 0")
    again = "to be delivered again, after delivery 1 of at most 2"
    assert released == f"orders-0: member first released offsets 1-2: {again}"
    done = "archived, after delivery 1 of at most 2"
    assert archived == f"orders-0: member first did not accept offset 3: {done}"
    assert ended == f"orders-0: the lock of member first on offsets 0, 4-9 has ended: {again}"
    assert last == (
        "orders-0: member second did not accept offset 0: archived, after delivery 2 of at most 2"
    )
    assert gone == (
        "orders-0: member second is gone or has closed its session: offsets 1-2, 4-9 to be "
        "delivered again, and that delivery is not counted"
    )
    counts = answer.counts
    assert (counts.acquired, counts.redelivered, counts.expired) == (19, 9, 7)
    assert (counts.released, counts.archived) == (10, 2)


async def test_a_group_nobody_reads_with(server):
    """An empty answer; INVALID_GROUP_ID without a name."""
    answer = await explained(server, group="other")
    assert (answer.error_code, answer.partitions, answer.events) == (0, [], [])
    assert (await explained(server, group="")).error_code == ErrorCode.INVALID_GROUP_ID

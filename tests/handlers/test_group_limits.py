"""What clients can have groups remember has a limit."""

from kwire.coordinator.joining import MAX_PENDING_CHARACTERS
from kwire.errors import ErrorCode
from kwire.handlers.join_group import MOST_PROTOCOLS
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tests.support.asking import error_of
from tests.support.in_process import RawClient, running_server


def _join(group_id):
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


async def test_a_coordinator_keeps_only_so_many_groups(tmp_path):
    """kwire.group.max.count: who comes with a new group is told so; known groups go on."""
    settings = {"kwire.group.max.count": "2", "offsets.topic.num.partitions": "1"}
    async with running_server(tmp_path, settings) as server:
        client = await server.connect()
        await server.find_coordinator("a")
        codes = [
            (await client.request(_join(name), 9, JoinGroupResponse)).error_code
            for name in ("a", "b", "c", "a")
        ]
        required, full = ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED
        assert codes == [required, required, full, required]


async def test_a_member_offers_only_so_many_protocols(tmp_path):
    """The group looks at all of them in one step, so their number has a limit."""
    async with running_server(tmp_path, {"offsets.topic.num.partitions": "1"}) as server:
        client = await server.connect()
        await server.find_coordinator("a")
        codes = []
        for count in (MOST_PROTOCOLS, MOST_PROTOCOLS + 1):
            join = _join("a")
            join.protocols = [
                JoinGroupRequestProtocol(name=str(number), metadata=b"") for number in range(count)
            ]
            codes.append((await client.request(join, 9, JoinGroupResponse)).error_code)
        assert codes == [ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.INVALID_REQUEST]


async def test_a_coordinator_keeps_offsets_of_only_so_many_groups(tmp_path):
    """The same for groups that have offsets and no member."""
    settings = {"kwire.group.max.count": "2", "offsets.topic.num.partitions": "1"}
    async with running_server(tmp_path, settings) as server:
        await server.find_coordinator("a")
        topic = "__consumer_offsets"
        codes = [await error_of(server.commit(name, topic, 1)) for name in ("a", "b", "c", "a")]
        assert codes == [0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED, 0]


async def test_long_ids_that_were_given_are_remembered_less_often(tmp_path):
    """A client id of 32 KB in ten thousand ids would be 320 MB for a group without members."""
    settings = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
    async with running_server(tmp_path, settings) as server:
        await server.find_coordinator("a")
        client = await server.connect()

        async def given(client_id):
            known = RawClient(client.stream, client_id)
            return (await known.request(_join("a"), 9, JoinGroupResponse)).member_id

        async def is_known(member_id):
            join = _join("a")
            join.member_id = member_id
            answer = await RawClient(client.stream, "x").request(join, 9, JoinGroupResponse)
            return answer.error_code != ErrorCode.UNKNOWN_MEMBER_ID

        count = MAX_PENDING_CHARACTERS // 30_000
        ids = [await given("x" * 30_000) for _ in range(count + 2)]
        assert [await is_known(one) for one in (ids[0], ids[-1])] == [False, True]
        await client.aclose()

"""What clients can have groups remember has a limit."""

from kwire.coordinator.classic_group import ClassicGroup
from kwire.coordinator.effects import Effects, Turn
from kwire.coordinator.history import Histories
from kwire.coordinator.joining import MAX_PENDING_CHARACTERS, _expect
from kwire.coordinator.settings import GroupSettings
from kwire.errors import ErrorCode
from kwire.handlers.join_group import MOST_PROTOCOLS
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.support.in_process import running_server


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
        find = FindCoordinatorRequest(coordinator_keys=["a"])
        await client.request(find, 4, FindCoordinatorResponse)
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
        find = FindCoordinatorRequest(coordinator_keys=["a"])
        await client.request(find, 4, FindCoordinatorResponse)
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
        client = await server.connect()
        find = FindCoordinatorRequest(coordinator_keys=["a"])
        await client.request(find, 4, FindCoordinatorResponse)

        async def commit(group_id):
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
            topic = OffsetCommitRequestTopic(name="__consumer_offsets", partitions=[partition])
            request = OffsetCommitRequest(group_id=group_id, topics=[topic])
            answer = await client.request(request, 8, OffsetCommitResponse)
            return answer.topics[0].partitions[0].error_code

        codes = [await commit(name) for name in ("a", "b", "c", "a")]
        assert codes == [0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED, 0]


def test_long_ids_that_were_given_are_remembered_less_often():
    """A client id of 32 KB in ten thousand ids would be 320 MB for a group without members."""
    group = ClassicGroup("g", Turn(0, GroupSettings(), Effects(), Histories(), None))
    for n in range(1000):
        _expect(group, f"{n:030000}", 1)
    assert sum(map(len, group.pending_joins)) <= MAX_PENDING_CHARACTERS + 30_000

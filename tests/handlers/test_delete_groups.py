"""DeleteGroups over a socket, of a group with so many offsets that they are deleted in pieces."""

import pytest
import trio

from kwire.budget.work import SLICE_S
from kwire.coordinator.effects import Effects
from kwire.coordinator.records import OffsetCommitValue, offset_commit
from kwire.errors import ErrorCode
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tests.support.clock import steps

OFFSETS = 1000


@pytest.fixture
def offsets(server):
    """The offsets of the group ``billing``, which has no members; each piece takes a slice."""
    server.server.poller.turns.clock = steps(SLICE_S)
    home = server.broker.groups.coordinator("billing")
    effects = Effects(is_atomic=False)
    value = OffsetCommitValue(offset=5, commit_timestamp=server.broker.now_ms())
    effects.records += [offset_commit("billing", "orders", n, value) for n in range(OFFSETS)]
    home.carry_out(effects)
    return home.coordinator.offsets


async def _wait_begun(offsets):
    with trio.fail_after(10):
        while len(offsets.partitions_of("billing")) == OFFSETS:
            await trio.lowlevel.checkpoint()
    assert offsets.partitions_of("billing")


async def test_no_member_joins_a_group_that_is_half_deleted(server, new_member, offsets):
    """A group is deleted as a whole or not at all: meanwhile clients are told to try again."""
    deleting, joining = await new_member(), await new_member()
    codes = []

    async def delete():
        request = DeleteGroupsRequest(groups_names=["billing"])
        response = await deleting.client.request(request, 2, DeleteGroupsResponse)
        codes.extend(ErrorCode(result.error_code) for result in response.results)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(delete)
        await _wait_begun(offsets)
        joined = await joining.join(version=3)
    assert codes == [ErrorCode.NONE]
    assert joined.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not offsets.partitions_of("billing")
    assert (await joining.join(version=3)).error_code == ErrorCode.NONE


async def test_a_deletion_goes_on_without_its_client(server, new_member, offsets):
    """A client that goes away leaves no group behind that has lost some of its offsets."""
    member = await new_member()
    await member.client.send(DeleteGroupsRequest(groups_names=["billing"]), 2)
    await _wait_begun(offsets)
    await member.client.aclose()
    with trio.fail_after(10):
        while offsets.partitions_of("billing"):
            await trio.lowlevel.checkpoint()

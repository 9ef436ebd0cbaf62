"""Responses that tell one error in place of everything else."""

import pytest

from kwire.errors import ErrorCode
from kwire.protocol.error_codes import error_codes, refused
from kwire.protocol.messages import message_classes
from kwire.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from kwire.protocol.messages.end_txn import EndTxnResponse
from kwire.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

CODE = ErrorCode.NOT_COORDINATOR
OF_COORDINATORS = (8, 9, 11, 12, 13, 14, 15, 16, 22, 24, 25, 26, 28, 42, 47, 65, 66, 68, 69)


def test_a_response_with_one_error_has_nothing_else() -> None:
    """No value may leave that a failover could take back."""
    told = refused(EndTxnResponse(producer_id=5, producer_epoch=3), CODE)
    assert isinstance(told, EndTxnResponse)
    assert (told.error_code, told.producer_id) == (CODE, -1)


def test_rows_with_errors_of_their_own_are_kept() -> None:
    """OffsetCommit has no error for the whole: each partition has it, also one that was refused."""
    rows = [
        OffsetCommitResponsePartition(partition_index=0),
        OffsetCommitResponsePartition(partition_index=1, error_code=ErrorCode.ILLEGAL_GENERATION),
    ]
    topic = OffsetCommitResponseTopic(name="t", partitions=rows)
    assert error_codes(refused(OffsetCommitResponse(topics=[topic]), CODE)) == [CODE, CODE]


def test_every_group_of_an_offset_fetch_tells_it() -> None:
    """In versions with groups as well as in those with topics only."""
    rows = [OffsetFetchResponsePartitions(partition_index=0, committed_offset=4)]
    topics = [OffsetFetchResponseTopics(name="t", partitions=rows)]
    response = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics)])
    assert set(error_codes(refused(response, CODE))) == {CODE}


def test_a_group_that_tells_an_error_tells_nothing_else_of_its_lists() -> None:
    """Members may be others after a failover."""
    group = DescribedGroup(group_id="g", members=[DescribedGroupMember(member_id="m")])
    told = refused(DescribeGroupsResponse(groups=[group]), CODE)
    assert isinstance(told, DescribeGroupsResponse)
    assert [(one.group_id, one.error_code, one.members) for one in told.groups] == [("g", CODE, [])]


@pytest.mark.parametrize("key", OF_COORDINATORS)
def test_each_response_of_a_coordinator_can_be_refused(key: int) -> None:
    """Its class has a place for an error."""
    response = refused(message_classes(key)[1](), CODE)
    assert isinstance(response, message_classes(key)[1])

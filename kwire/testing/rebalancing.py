"""A rebalance that a test asks for: a member of the test's own joins a group, and leaves it again.

Rules:

- In a group of the classic protocol every member has to give its partitions back, and gets some.
  The member leaves before it has got any.
- In a group of the consumer protocol (KIP-848) the member subscribes to the topics of the others,
  and leaves when these have given back what it is to have. So partitions move away, and back.
- The members notice with their next heartbeats, by clocks of their own.
"""

import threading
import uuid
from collections.abc import Callable
from contextlib import suppress

from kwire.errors import ErrorCode
from kwire.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.describe_groups import (
    DescribedGroup as ClassicGroup,
)
from kwire.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kwire.testing.asking import Asker, NoAnswer
from kwire.testing.waiting import wait_until

STABLE = "Stable"
SESSION_TIMEOUT_MS = 30_000
REBALANCE_TIMEOUT_MS = 60_000
JOINING_EPOCH, LEAVING_EPOCH = 0, -1


class Rebalance:
    """One rebalance of one group; ``address`` is that of its coordinator."""

    def __init__(self, asker: Asker, address: str, group: str, timeout_s: float) -> None:
        self._asker = asker
        self._address = address
        self._group = group
        self._timeout_s = timeout_s

    def run(self) -> None:
        """Begin it, and wait for its end; ValueError if the group has no members."""
        group = self._described()
        if group.error_code == ErrorCode.NONE and group.members:
            self._wait(lambda: self._described().group_state == STABLE, "to be stable")
            self._move_partitions(self._described())
            return
        classic = self._described_classic()
        if not classic.members:
            raise ValueError(f"group {self._group!r} has no members that could rebalance")
        self._wait(lambda: self._described_classic().group_state == STABLE, "to be stable")
        self._interrupt(self._described_classic())

    # A group of the consumer protocol

    def _described(self) -> DescribedGroup:
        request = ConsumerGroupDescribeRequest(group_ids=[self._group])
        answer = self._asker.ask(self._address, request, 1, ConsumerGroupDescribeResponse)
        return answer.groups[0]

    def _move_partitions(self, group: DescribedGroup) -> None:
        own_id = str(uuid.uuid4())
        topics = {name for member in group.members for name in member.subscribed_topic_names}
        topics |= {
            topic.topic_name
            for member in group.members
            for topic in member.assignment.topic_partitions
        }
        self._beat(
            ConsumerGroupHeartbeatRequest(
                group_id=self._group,
                member_id=own_id,
                member_epoch=JOINING_EPOCH,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                subscribed_topic_names=sorted(topics),
                topic_partitions=[],
            )
        )
        self._wait(
            lambda: self._others_have_moved(own_id, group.group_epoch), "to give partitions back"
        )
        leaves = ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=own_id, member_epoch=LEAVING_EPOCH
        )
        self._beat(leaves)
        self._wait(lambda: self._described().group_state == STABLE, "to be stable again")

    def _beat(self, request: ConsumerGroupHeartbeatRequest) -> None:
        answer = self._asker.ask(self._address, request, 1, ConsumerGroupHeartbeatResponse)
        if answer.error_code != ErrorCode.NONE:
            code = ErrorCode(answer.error_code).name
            raise ValueError(f"group {self._group!r} can't rebalance: {code}")

    def _others_have_moved(self, own_id: str, epoch_before: int) -> bool:
        """Whether all others have what the assignment with the new member leaves them."""
        group = self._described()
        others = [one for one in group.members if one.member_id != own_id]
        is_assigned = epoch_before < group.group_epoch == group.assignment_epoch
        return is_assigned and all(one.member_epoch >= group.group_epoch for one in others)

    # A group of the classic protocol

    def _described_classic(self) -> ClassicGroup:
        request = DescribeGroupsRequest(groups=[self._group])
        return self._asker.ask(self._address, request, 5, DescribeGroupsResponse).groups[0]

    def _interrupt(self, group: ClassicGroup) -> None:
        join = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id="",
            protocol_type=group.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(
                    name=group.protocol_data, metadata=group.members[0].member_metadata
                )
            ],
        )
        join.member_id = self._asker.ask(self._address, join, 5, JoinGroupResponse).member_id
        joining = threading.Thread(target=self._join, args=(join,), daemon=True)
        joining.start()
        self._wait(lambda: self._has(join.member_id), "to prepare a rebalance")
        own = MemberIdentity(member_id=join.member_id)
        leave = LeaveGroupRequest(group_id=self._group, members=[own])
        self._asker.ask(self._address, leave, 3, LeaveGroupResponse)
        joining.join()
        self._wait(lambda: self._described_classic().group_state == STABLE, "to be stable again")

    def _join(self, request: JoinGroupRequest) -> None:
        """Join until the member leaves; this needs a connection of its own."""
        asker = Asker(self._timeout_s)
        with suppress(NoAnswer):
            asker.ask(self._address, request, 5, JoinGroupResponse)
        asker.close()

    def _has(self, member_id: str) -> bool:
        return any(one.member_id == member_id for one in self._described_classic().members)

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, timeout_s=self._timeout_s, what=f"group {self._group!r} {what}")

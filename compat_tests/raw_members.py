"""A member of a classic group that sends single requests, in any version."""

from typing import Any

from compat_tests.raw_client import RawClient
from compat_tests.raw_routes import GROUP, Home
from kwire.errors import ErrorCode
from kwire.protocol.codec import encode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.protocol.types import Request
from kwire.testing.waiting import wait_until

ID_REQUIRED_SINCE = 4
NAMES_SINCE = 5
TOPIC_IDS_SINCE = 10


def subscription(*topics: str) -> bytes:
    """What a consumer says of itself when it joins."""
    told = ConsumerProtocolSubscription(topics=list(topics), user_data=None)
    return b"\0\0" + encode(told, 0)


class RawMember:
    """One member on a connection of its own; ``fields`` of requests may be given by name."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.raw = RawClient(bootstrap)
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.topics = ("t",)
        self._asked: tuple[Request, int]

        def is_ready() -> bool:
            found = self.raw.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4)
            # While it loads its groups, a coordinator answers a heartbeat without an error.
            asked = self.raw.ask(HeartbeatRequest(group_id=group, member_id="nobody"), 4)
            is_loaded = asked.error_code == ErrorCode.UNKNOWN_MEMBER_ID
            return is_loaded and not found.coordinators[0].error_code

        wait_until(is_ready, timeout_s=30, what="the coordinator")
        self.raw.move_to(Home(GROUP, group))  # with what isn't about one group, as ListGroups

    def neighbor(self, hint: str) -> str:
        """The name of another group that has the same coordinator."""
        home = self.raw.address(Home(GROUP, self.group))
        names = (f"{self.group}-{hint}-{number}" for number in range(100))
        return next(name for name in names if self.raw.address(Home(GROUP, name)) == home)

    def join(self, version: int = 9, **fields: Any) -> Any:
        """Join once; the id and the generation are remembered."""
        self.begin_to_join(version, **fields)
        return self.joined()

    def begin_to_join(self, version: int = 9, **fields: Any) -> None:
        """Ask to join; ``joined`` is the answer, which may have to wait for others."""
        protocol = JoinGroupRequestProtocol(name="range", metadata=subscription(*self.topics))
        values = {
            "group_id": self.group,
            "member_id": self.member_id,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000 if version else -1,
            "protocol_type": "consumer",
            "protocols": [protocol],
        }
        self._asked = (JoinGroupRequest(**(values | fields)), version)
        self.raw.send(*self._asked)

    def joined(self) -> Any:
        """The answer to the last request to join."""
        answer = self.raw.receive(*self._asked)
        self.member_id = answer.member_id or self.member_id
        self.generation = answer.generation_id
        return answer

    def become_member(self, version: int = 9, **fields: Any) -> Any:
        """Join, a second time with an id where one is required."""
        answer = self.join(version, **fields)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            answer = self.join(version, **fields)
        assert answer.error_code == ErrorCode.NONE
        return answer

    def sync(self, version: int = 5, assignment: bytes = b"all", **fields: Any) -> Any:
        """Sync, and assign everything to this member."""
        given = SyncGroupRequestAssignment(member_id=self.member_id, assignment=assignment)
        self.begin_to_sync(version, **({"assignments": [given]} | fields))
        return self.synced()

    def begin_to_sync(self, version: int = 5, **fields: Any) -> None:
        """Ask for an assignment; ``synced`` is the answer, which may have to wait."""
        values: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
        }
        if version >= NAMES_SINCE:
            values |= {"protocol_type": "consumer", "protocol_name": "range"}
        self._asked = (SyncGroupRequest(**(values | fields)), version)
        self.raw.send(*self._asked)

    def synced(self) -> Any:
        """The answer to the last request to sync."""
        return self.raw.receive(*self._asked)

    def become_stable(self, version: int = 9, **fields: Any) -> None:
        """Be the only member, and have everything."""
        self.become_member(version, **fields)
        instance = fields.get("group_instance_id")
        assert self.sync(group_instance_id=instance).error_code == ErrorCode.NONE

    def beat(self, version: int = 4, **fields: Any) -> ErrorCode:
        """Send a heartbeat."""
        values = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
        }
        return ErrorCode(self.raw.ask(HeartbeatRequest(**(values | fields)), version).error_code)

    def leave(self, *members: MemberIdentity, version: int = 5) -> Any:
        """Leave, or let members go."""
        if version < 3:
            leaving = LeaveGroupRequest(group_id=self.group, member_id=self.member_id)
        else:
            gone = list(members) or [MemberIdentity(member_id=self.member_id)]
            leaving = LeaveGroupRequest(group_id=self.group, members=gone)
        return self.raw.ask(leaving, version)

    def commit(
        self, topic: str | bytes, *partitions: tuple[int, int, str], version: int = 9, **fields: Any
    ) -> list[ErrorCode]:
        """Commit offsets: partition, offset, metadata; the topic by id from version 10 on.

        The errors, in the order of the partitions.
        """
        by_id = version >= TOPIC_IDS_SINCE
        asked = OffsetCommitRequestTopic(
            **({"topic_id": topic} if by_id else {"name": topic}),
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata=metadata
                )
                for index, offset, metadata in partitions
            ],
        )
        values = {"group_id": self.group, "topics": [asked]}
        answer = self.raw.ask(OffsetCommitRequest(**(values | fields)), version)
        codes = {p.partition_index: p.error_code for t in answer.topics for p in t.partitions}
        return [ErrorCode(codes[index]) for index, _, _ in partitions]

    @property
    def as_member(self) -> dict[str, Any]:
        """The fields of a commit that say who commits."""
        return {
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
        }

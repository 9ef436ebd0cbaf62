"""What members of the classic protocol do in scripts for consumer groups."""

from typing import Any

from kwire.coordinator.consumer.embedded import parse_assignment
from kwire.coordinator.joining import Client
from kwire.errors import ErrorCode
from kwire.protocol.codec import encode
from kwire.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from kwire.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.coordinator.consumer.notation import (
    GROUP,
    parse_partitions,
    show_partitions,
    topic_name,
)
from tests.coordinator.scripts import Words


class ClassicCommands:
    """The commands and answers of members of the classic protocol; a part of a script."""

    coordinator: Any
    member: Any
    now_ms: int
    take: Any
    topics: Any
    trace: list[str]

    def do_old_join(self, plain: list[str], given: Words) -> None:
        """A client joins with the classic protocol, as one that keeps what it owns."""
        [name] = plain
        member = self.member(name)
        owns = given.get("owns")
        owned = member.owned if owns is None else parse_partitions(owns.split("+"))
        subscription = ConsumerProtocolSubscription(
            topics=given.get("topics", "t").split(","),
            owned_partitions=[
                TopicPartition(topic=topic, partitions=sorted(p)) for topic, p in owned.items()
            ],
        )
        packed = b"\0\1" + encode(subscription, 1)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=int(given.get("session", 10)) * 1000,
            rebalance_timeout_ms=int(given.get("rebalance", 60)) * 1000,
            member_id=given.get("id", member.member_id),
            group_instance_id=given.get("instance"),
            protocol_type=given.get("type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=protocol, metadata=packed)
                for protocol in given.get("protocols", "range").split(",")
            ],
        )
        client = Client(name, "/127.0.0.1", int(given.get("version", 9)))
        now_ms = self.now_ms
        self.take(self.coordinator.members.join(request, client, (name, "old_join"), now_ms))

    def do_old_sync(self, plain: list[str], given: Words) -> None:
        """A client asks for its assignment; ``MEMBER=PARTITIONS`` where it leads."""
        [name] = plain
        member = self.member(name)
        user_data = given.pop("user_data", "").encode()
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=int(given.pop("generation", member.epoch)),
            member_id=member.member_id,
            group_instance_id=given.pop("instance", None),
            protocol_type="consumer",
            protocol_name=given.pop("protocol", "range"),
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=self.member(who).member_id, assignment=_packed(partitions, user_data)
                )
                for who, partitions in given.items()
            ],
        )
        now_ms = self.now_ms
        self.take(self.coordinator.members.sync(request, (name, "old_sync"), now_ms))

    def do_old_beat(self, plain: list[str], given: Words) -> None:
        """A client sends a heartbeat of the classic protocol."""
        [name] = plain
        member = self.member(name)
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=int(given.get("generation", member.epoch)),
            member_id=member.member_id,
            group_instance_id=given.get("instance"),
        )
        self.coordinator.members.heartbeat(request, self.now_ms)
        self.trace.append("ok")

    def do_old_leave(self, plain: list[str], given: Words) -> None:
        """Clients leave in one request of the classic protocol."""
        leaving = [MemberIdentity(member_id=self.member(name).member_id) for name in plain]
        if "instance" in given:
            leaving.append(MemberIdentity(member_id="", group_instance_id=given["instance"]))
        now_ms = self.now_ms
        self.take(self.coordinator.members.leave(GROUP, leaving, ("", "old_leave"), now_ms))

    def _answer_old_join(self, name: str, response: JoinGroupResponse) -> str:
        member = self.member(name)
        if response.member_id:
            member.member_id = response.member_id
        if response.error_code:
            return f"{ErrorCode(response.error_code).name} {response.member_id}".strip()
        member.epoch = response.generation_id
        leads = " leads" if response.leader == response.member_id else ""
        return f"{member.member_id} generation {member.epoch} {response.protocol_name}{leads}"

    def _answer_old_sync(self, name: str, response: SyncGroupResponse) -> str:
        if response.error_code:
            return ErrorCode(response.error_code).name
        has = parse_assignment(response.assignment, self.topics)
        self.member(name).owned = {topic_name(t): set(p) for t, p in has.items()}
        return f"has {show_partitions(has)}"

    def _answer_old_leave(self, name: str, response: LeaveGroupResponse) -> str:
        return " ".join(
            f"{m.member_id or m.group_instance_id} {ErrorCode(m.error_code).name}"
            for m in response.members
        )


def _packed(partitions: str, user_data: bytes) -> bytes:
    owned = parse_partitions(partitions.split("+"))
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topic, partitions=sorted(p)) for topic, p in owned.items()
        ],
        user_data=user_data or None,
    )
    return b"\0\1" + encode(assignment, 1)

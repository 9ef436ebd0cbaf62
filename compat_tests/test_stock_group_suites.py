"""What Kafka's own integration tests of consumer groups (KIP-848) see on the wire, step by step."""

import uuid
from typing import Any

from compat_tests.conftest import Names
from compat_tests.raw_client import RawClient
from compat_tests.raw_members import RawMember, subscription
from compat_tests.test_stock_suites import alter
from kwire.errors import ErrorCode
from kwire.protocol.codec import encode
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartition
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.join_group import JoinGroupRequestProtocol
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

GROUP_TYPE = 32
REBALANCE_MS = 300_000
NO_PARTITIONS: list[int] = []


class Member:
    """A member that sends heartbeats; ``answer`` is the last one."""

    def __init__(self, raw: RawClient, group: str, **subscription: Any) -> None:
        self.raw = raw
        self.group = group
        self.member_id = str(uuid.uuid4())
        self.answer: Any = None
        asked = FindCoordinatorRequest(coordinator_keys=[group])
        wait_until(lambda: not raw.ask(asked, 6).coordinators[0].error_code, timeout_s=30)
        wait_until(lambda: self._joins(**subscription), timeout_s=30, what="the coordinator")

    def _joins(self, **subscription: Any) -> bool:
        joining = {"rebalance_timeout_ms": REBALANCE_MS, "topic_partitions": []}
        return self.beat(member_epoch=0, **joining, **subscription) not in (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
        )

    def beat(self, **fields: Any) -> ErrorCode:
        """A heartbeat; nothing but the epoch where no fields are given."""
        given = {"group_id": self.group, "member_id": self.member_id}
        if "member_epoch" not in fields:
            given["member_epoch"] = self.answer.member_epoch
        self.answer = self.raw.ask(ConsumerGroupHeartbeatRequest(**(given | fields)), 1)
        return ErrorCode(self.answer.error_code)

    def is_given(self, partitions: list[int]) -> bool:
        """Beat, and see whether these partitions are the assignment in the answer."""
        assert self.beat() == ErrorCode.NONE
        assignment = self.answer.assignment
        if assignment is None:
            return False
        return [index for t in assignment.topic_partitions for index in t.partitions] == partitions


def test_the_interval_of_a_group_without_topics(bootstrap: str, names: Names) -> None:
    """It is that of the settings, and that of the group as soon as it has one of its own."""
    group = names.group()
    with RawClient(bootstrap) as raw:
        member = Member(raw, group, subscribed_topic_names=[names.topic()])
        assert (member.answer.member_epoch, member.answer.heartbeat_interval_ms) == (2, 5_000)
        config = {"consumer.heartbeat.interval.ms": "10000"}
        assert alter(raw, GROUP_TYPE, group, **config) == "NONE"

        def has_changed() -> bool:
            assert member.beat() == ErrorCode.NONE
            return bool(member.answer.heartbeat_interval_ms == 10_000)

        wait_until(has_changed, timeout_s=15, what="the group's interval")


def test_the_topic_of_an_expression_comes_and_goes(bootstrap: str, names: Names) -> None:
    """The epoch is 1 without it, 2 with it, and still 2 when its partitions are taken away."""
    topic = names.topic()
    with RawClient(bootstrap) as raw:
        member = Member(raw, names.group(), subscribed_topic_regex=f"{topic}*")
        assert member.answer.member_epoch == 1
        assert not member.answer.assignment.topic_partitions
        create_topics(bootstrap, topic, partitions=3)
        wait_until(lambda: member.is_given([0, 1, 2]), timeout_s=30, what="the partitions")
        assert member.answer.member_epoch == 2
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000)
        assert raw.ask(gone, 6).responses[0].error_code == ErrorCode.NONE
        wait_until(lambda: member.is_given(NO_PARTITIONS), timeout_s=30, what="them to be gone")
        assert member.answer.member_epoch == 2


def test_topics_of_names_come_before_those_of_a_new_expression(
    bootstrap: str, names: Names
) -> None:
    """In two assignments, which librdkafka's 0045-subscribe_update counts on."""
    named, matched = names.topic("named"), names.topic("matched")
    create_topics(bootstrap, named, partitions=2)
    create_topics(bootstrap, matched, partitions=4)
    seen: list[list[int]] = []
    with RawClient(bootstrap) as raw:
        both = {"subscribed_topic_names": [named], "subscribed_topic_regex": f"{matched}.*"}
        member = Member(raw, names.group(), **both)

        def has_all() -> bool:
            if member.answer.assignment is not None:
                given = member.answer.assignment.topic_partitions
                seen.append(sorted(len(topic.partitions) for topic in given))
            assert member.beat() == ErrorCode.NONE
            return [2, 4] in seen

        wait_until(has_all, timeout_s=30, what="the topics of the expression")
    assert [2] in seen[: seen.index([2, 4])]


def test_an_assignor_of_ones_own_keeps_its_group(bootstrap: str, names: Names) -> None:
    """What it has put into assignments would be lost: the refusal and its text are Kafka's."""
    topic, group = names.topic(), names.group()
    create_topics(bootstrap, topic, partitions=3)
    old = RawMember(bootstrap, group)
    old.topics = (topic,)
    assigned = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic=topic, partitions=[0, 1, 2])], user_data=b"\0"
    )
    protocol = JoinGroupRequestProtocol(name="consumer-range", metadata=subscription(topic))
    old.become_member(protocols=[protocol])
    answer = old.sync(protocol_name="consumer-range", assignment=b"\0\0" + encode(assigned, 0))
    assert answer.error_code == ErrorCode.NONE
    with RawClient(bootstrap) as raw:
        member = Member(raw, group, subscribed_topic_names=[topic])
        assert ErrorCode(member.answer.error_code) is ErrorCode.GROUP_ID_NOT_FOUND
        assert member.answer.error_message == (
            f"Cannot upgrade classic group {group} to consumer group because an unsupported "
            "custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade."
        )
        old.leave()
        joined = Member(raw, group, subscribed_topic_names=[topic])
        assert joined.answer.error_code == ErrorCode.NONE
    old.raw.close()

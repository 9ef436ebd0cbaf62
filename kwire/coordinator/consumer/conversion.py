"""Conversion from a classic group to a consumer group and back, with members in it.

Rules:

- A classic group of consumers becomes a consumer group when a member of the new protocol joins. Its
  members keep their partitions, their generation becomes their epoch, and they go on with JoinGroup
  and heartbeats of the classic protocol.
- A consumer group becomes a classic group when its last member of the new protocol leaves and
  members of the classic protocol remain. Its epoch becomes their generation, and they rebalance.
- ``group.consumer.migration.policy`` says which of the two conversions are allowed.

Source: GroupMetadataManager.convertToConsumerGroup and convertToClassicGroup, ConsumerGroup
.fromClassicGroup and ClassicGroup.fromConsumerGroup of Kafka 4.3; KIP-848.
"""

from kwire.coordinator.classic_group import ClassicGroup, GroupState
from kwire.coordinator.classic_member import Member
from kwire.coordinator.consumer.embedded import (
    has_user_data,
    pack_assignment,
    parse_assignment,
    parse_subscription,
)
from kwire.coordinator.consumer.group import ConsumerGroup
from kwire.coordinator.consumer.group_update import GroupUpdate
from kwire.coordinator.consumer.member import (
    ClassicMember,
    ConsumerMember,
    Description,
    MemberState,
)
from kwire.coordinator.consumer.settings import ConsumerSettings
from kwire.coordinator.consumer.topics import Topics, hash_topics
from kwire.coordinator.consumer_subscription import CONSUMER_PROTOCOL_TYPE
from kwire.coordinator.records import group_metadata
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.codec import MalformedRequest

STOCK_ASSIGNORS = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""The assignors of stock clients: the data that some of them add to assignments may be lost."""


def check_upgrade(group: ClassicGroup, settings: ConsumerSettings) -> None:
    """Raise KafkaError (GROUP_ID_NOT_FOUND) unless a classic group may become a consumer group."""
    why = None
    if not settings.migration_policy.allows_upgrade:
        why = "online upgrade is disabled"
    elif group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        why = "the group does not use the consumer embedded protocol"
    elif len(group.members) > settings.max_size:
        why = "the group size exceeds the consumer group maximum size"
    if why is not None:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {group.group_id} to consumer group because {why}.",
        )


def to_consumer_group(group: ClassicGroup, topics: Topics) -> ConsumerGroup:
    """The consumer group that a classic group becomes.

    Raises KafkaError (GROUP_ID_NOT_FOUND) if a member's subscription or assignment is unreadable.
    """
    upgraded = ConsumerGroup(group.group_id)
    upgraded.epoch = upgraded.target_epoch = group.generation
    try:
        _check_assignor(group)
        for member in group.members.values():
            upgraded.put_member(_to_consumer_member(group, member, topics))
    except MalformedRequest as error:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade the classic group {group.group_id} to consumer group because the "
            "embedded consumer protocol is malformed.",
        ) from error
    for member_id, upgraded_member in upgraded.members.items():
        assigned = upgraded_member.assigned
        upgraded.targets[member_id] = {t: frozenset(p) for t, p in assigned.items()}
    upgraded.metadata_hash = hash_topics(upgraded.subscribed_topics(), topics)
    return upgraded


def _check_assignor(group: ClassicGroup) -> None:
    """Refuse assignments with a custom assignor's data, because the conversion would lose it."""
    if group.protocol in STOCK_ASSIGNORS:
        return
    if any(has_user_data(member.assignment) for member in group.members.values()):
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {group.group_id} to consumer group because an "
            "unsupported custom assignor is in use. Please refer to the documentation or switch "
            "to a default assignor before re-attempting the upgrade.",
        )


def _to_consumer_member(group: ClassicGroup, member: Member, topics: Topics) -> ConsumerMember:
    protocol = group.protocol or member.protocols[0][0]
    subscription = parse_subscription(member.metadata(protocol))
    assigned = parse_assignment(member.assignment, topics)
    return ConsumerMember(
        member.member_id,
        Description(
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=tuple(sorted(set(subscription.topics))),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMember(member.session_timeout_ms, member.protocols),
        ),
        epoch=group.generation,
        previous_epoch=group.generation,
        state=MemberState.STABLE,
        assigned={t: dict.fromkeys(p, group.generation) for t, p in assigned.items()},
    )


def write_upgrade(update: GroupUpdate) -> None:
    """The records of a group that has just become a consumer group."""
    group = update.group
    update.turn.effects.records.append(group_metadata(group.group_id, None))
    for member in list(group.members.values()):
        update.describe(member)
    update.set_epoch(group.epoch, group.metadata_hash)
    for member_id, partitions in list(group.targets.items()):
        update.set_target(member_id, partitions)
    update.set_target_epoch(group.target_epoch, timestamp_ms=0)
    for member in list(group.members.values()):
        update.settle(member)
    update.note("is a consumer group from now on")


def may_downgrade(group: ConsumerGroup, settings: ConsumerSettings) -> bool:
    """Whether a consumer group has only members of the classic protocol, and may be converted."""
    return (
        bool(group.members)
        and group.classic_count == len(group.members)
        and settings.migration_policy.allows_downgrade
        and len(group.members) <= settings.classic_max_size
    )


def downgrade(update: GroupUpdate) -> ClassicGroup:
    """The classic group that a consumer group becomes, and the records of the conversion."""
    group = update.group
    classic = ClassicGroup(group.group_id, update.turn)
    classic.generation = group.epoch
    for member in group.members.values():
        classic.add(_to_classic_member(member, update.topics), CONSUMER_PROTOCOL_TYPE)
    classic.protocol = classic.select_protocol()
    classic.state = GroupState.STABLE
    for classic_member in classic.members.values():
        classic_member.renew_session(update.turn.now_ms)
    records = update.turn.effects.records
    records += group.tombstones_with(sorted({*group.members, *update.original.members}))
    records.append(group_metadata(group.group_id, classic.state_record()))
    update.note("is a classic group from now on")
    return classic


def _to_classic_member(member: ConsumerMember, topics: Topics) -> Member:
    assert member.about.classic is not None
    session_timeout_ms, protocols = member.about.classic
    classic = Member(
        member.member_id,
        member.about.instance_id,
        member.about.client_id,
        member.about.client_host,
        member.about.rebalance_timeout_ms,
        session_timeout_ms,
        protocols,
    )
    classic.assignment = pack_assignment(member, topics)
    return classic

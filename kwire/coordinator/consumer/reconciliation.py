"""Moves a member from its present partitions to its target, step by step.

Rules:

- Revocation comes first: a member stays at its epoch, with the partitions that it keeps, until it
  no longer owns the partitions that it has to give back.
- A member gets a partition only when no member has the partition any more. Until then the member is
  already at the new epoch, has the free partitions of its target, and waits for the others.
- A member gets no partition of a topic to which it doesn't subscribe (any more), whatever the
  target says, because the target may be older than the subscription.

Source: CurrentAssignmentBuilder of Kafka 4.3; KIP-848.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from kwire.coordinator.consumer.member import (
    ConsumerMember,
    MemberState,
    Owned,
    Partitions,
)
from kwire.errors import ErrorCode, KafkaError

NOTHING: frozenset[int] = frozenset()


class Target:
    """A member's target: an epoch, the partitions at that epoch, and the subscribed topics.

    ``is_owned`` says whether any member has a partition at the moment.
    """

    __slots__ = ("epoch", "is_owned", "partitions", "subscribed")

    def __init__(
        self,
        epoch: int,
        partitions: Partitions,
        subscribed: AbstractSet[bytes],
        is_owned: Callable[[bytes, int], bool],
    ) -> None:
        self.epoch = epoch
        self.partitions = partitions
        self.subscribed = subscribed
        self.is_owned = is_owned

    def of(self, topic_id: bytes) -> frozenset[int]:
        """The target's partitions of a topic."""
        return self.partitions.get(topic_id, NOTHING) if topic_id in self.subscribed else NOTHING


def check_state(member: ConsumerMember, reported: Partitions | None) -> None:
    """Raise KafkaError (FENCED_MEMBER_EPOCH) for a state that a newer broker has written.

    Then the member has to come back without partitions.
    """
    if member.state is MemberState.UNKNOWN and (reported is None or reported):
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, "the member's state is unknown")


def reconcile(
    member: ConsumerMember, target: Target, reported: Partitions | None, *, resubscribed: bool
) -> ConsumerMember:
    """The member one step further towards its target, or unchanged if it can't get further.

    ``reported`` are the partitions that it says it owns, None if it doesn't say. ``resubscribed``:
    it has just changed its subscription. ``check_state`` comes first.
    """
    if member.state is MemberState.UNKNOWN:
        assert not reported, member.member_id
        return _next_assignment(member, target, reported)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if not _still_owns(member.revoking, reported):
            return _next_assignment(member, target, reported)
    elif not member.is_reconciled_to(target.epoch):
        return _next_assignment(member, target, reported)
    return _without_unsubscribed(member, target, reported) if resubscribed else member


def _still_owns(revoking: Owned, reported: Partitions | None) -> bool:
    """Whether a member still owns a partition it has to give back; without a report, it does."""
    if reported is None:
        return True
    return any(
        not reported.get(topic_id, NOTHING).isdisjoint(partitions)
        for topic_id, partitions in revoking.items()
    )


def _without_unsubscribed(
    member: ConsumerMember, target: Target, reported: Partitions | None
) -> ConsumerMember:
    """The member without topics from which it has unsubscribed, before the next target exists."""
    dropped = {t: p for t, p in member.assigned.items() if t not in target.subscribed}
    if not dropped:
        return member
    kept = {t: p for t, p in member.assigned.items() if t not in dropped}
    revoking = {t: dict(p) for t, p in member.revoking.items()}
    for topic_id, partitions in dropped.items():
        revoking[topic_id] = {**revoking.get(topic_id, {}), **partitions}
    changed = member.moved_to(member.epoch)._replace(assigned=kept)
    if _still_owns(revoking, reported):
        return changed._replace(state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
    return changed


def _next_assignment(
    member: ConsumerMember, target: Target, reported: Partitions | None
) -> ConsumerMember:
    # Each member is led through all steps to one target; the next target is of a later epoch.
    assert member.is_classic or member.epoch <= target.epoch, (member.member_id, member.epoch)
    kept: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    free: dict[bytes, dict[int, int]] = {}
    waits = False
    for topic_id in sorted({*target.partitions, *member.assigned}):
        wanted = target.of(topic_id)
        has = member.assigned.get(topic_id, {})
        _put_if_any(kept, topic_id, {p: epoch for p, epoch in has.items() if p in wanted})
        _put_if_any(revoking, topic_id, {p: epoch for p, epoch in has.items() if p not in wanted})
        missing = wanted - has.keys()
        available = {p: target.epoch for p in missing if not target.is_owned(topic_id, p)}
        waits = waits or len(available) < len(missing)
        _put_if_any(free, topic_id, available)
    if revoking and _still_owns(revoking, reported):
        stays = member.moved_to(member.epoch)
        return stays._replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking
        )
    for topic_id, partitions in free.items():
        kept[topic_id] = {**kept.get(topic_id, {}), **partitions}
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return member.moved_to(target.epoch)._replace(state=state, assigned=kept, revoking={})


def _put_if_any(
    into: dict[bytes, dict[int, int]], topic_id: bytes, partitions: dict[int, int]
) -> None:
    if partitions:
        into[topic_id] = partitions

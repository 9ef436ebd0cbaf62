"""The assignor ``simple`` of share groups: a partition may go to several members (KIP-932).

Rules:

- If all members subscribe to the same topics, their partitions are shared out together, otherwise
  topic by topic. Members have as equally many partitions as can be, and so have partitions members:
  if there are fewer partitions than members, each is given to several.
- Members keep what they have, as far as it is their share.
- Every partition has a member. A partition that should have another one may go without, if all
  members with room have it already: Kafka tolerates this small imbalance too.

Source: SimpleAssignor, SimpleHomogeneousAssignmentBuilder and
SimpleHeterogeneousAssignmentBuilder of Kafka 4.4, as to what comes out.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kwire.coordinator.assignors.spec import Partition, Shares


class ShareSpec(NamedTuple):
    """The topics that each member reads, its present target, and the partitions of each topic."""

    reads: Mapping[str, frozenset[bytes]]
    has: Mapping[str, Mapping[bytes, frozenset[int]]]
    topics: Mapping[bytes, Sequence[int]]


def assign_simply(spec: ShareSpec) -> Shares:
    """The partitions of each member."""
    given: dict[str, set[Partition]] = {member_id: set() for member_id in sorted(spec.reads)}
    for topic_ids, members in _pools(spec):
        partitions = [(t, index) for t in topic_ids for index in sorted(spec.topics.get(t, ()))]
        if partitions:
            for member_id, share in _share_out(spec, members, partitions).items():
                given[member_id] |= share
    shares: Shares = {}
    for member_id, share in given.items():
        topics: dict[bytes, set[int]] = {}
        for topic_id, index in share:
            topics.setdefault(topic_id, set()).add(index)
        shares[member_id] = {topic_id: frozenset(p) for topic_id, p in topics.items()}
    return shares


def _pools(spec: ShareSpec) -> Iterable[tuple[Sequence[bytes], Sequence[str]]]:
    """Topics whose partitions are shared out together, each with the members that get them."""
    subscriptions = set(spec.reads.values())
    if len(subscriptions) == 1:
        [topic_ids] = subscriptions
        yield sorted(topic_ids), sorted(spec.reads)
        return
    readers: dict[bytes, list[str]] = {}
    for member_id in sorted(spec.reads):
        for topic_id in spec.reads[member_id]:
            readers.setdefault(topic_id, []).append(member_id)
    for topic_id in sorted(readers):
        yield [topic_id], readers[topic_id]


def _share_out(
    spec: ShareSpec, members: Sequence[str], partitions: Sequence[Partition]
) -> dict[str, set[Partition]]:
    """Share partitions out among members, of which each may get every one of them."""
    pool = set(partitions)
    sharing = -(-len(members) // len(partitions))
    kept = {member_id: _held(spec, member_id) & pool for member_id in members}
    wanted = _wanted(kept, sharing * len(partitions))
    holders: dict[Partition, set[str]] = {partition: set() for partition in partitions}
    for member_id, share in kept.items():
        for partition in share:
            holders[partition].add(member_id)
    _take_excess(kept, wanted, holders)
    _take_overshared(kept, holders, sharing)
    _fill(kept, wanted, holders, sharing)
    assert all(holders.values()), "each partition has a member"
    return kept


def _held(spec: ShareSpec, member_id: str) -> set[Partition]:
    return {(t, index) for t, indexes in spec.has.get(member_id, {}).items() for index in indexes}


def _wanted(kept: Mapping[str, set[Partition]], total: int) -> dict[str, int]:
    """How many partitions each member is to have; who has most gets one more than the others."""
    least, more = divmod(total, len(kept))
    by_load = sorted(kept, key=lambda member_id: (-len(kept[member_id]), member_id))
    return {member_id: least + (rank < more) for rank, member_id in enumerate(by_load)}


def _take_excess(
    kept: Mapping[str, set[Partition]],
    wanted: Mapping[str, int],
    holders: Mapping[Partition, set[str]],
) -> None:
    """Take partitions from members with too many, those with most members first."""
    for member_id, share in kept.items():
        excess = len(share) - wanted[member_id]
        if excess > 0:
            by_holders = sorted(share, key=lambda partition: (-len(holders[partition]), partition))
            for partition in by_holders[:excess]:
                share.discard(partition)
                holders[partition].discard(member_id)


def _take_overshared(
    kept: Mapping[str, set[Partition]], holders: Mapping[Partition, set[str]], sharing: int
) -> None:
    """Take partitions that too many members have from those members that have most."""
    for partition, members in holders.items():
        while len(members) > sharing:
            member_id = max(members, key=lambda one: (len(kept[one]), one))
            kept[member_id].discard(partition)
            members.discard(member_id)


def _fill(
    kept: Mapping[str, set[Partition]],
    wanted: Mapping[str, int],
    holders: Mapping[Partition, set[str]],
    sharing: int,
) -> None:
    """Give partitions with too few members to members with room: first those without any."""
    room = [member_id for member_id in kept if len(kept[member_id]) < wanted[member_id]]
    turn = 0
    for partition in sorted(holders, key=lambda one: (len(holders[one]), one)):
        missing, tried = sharing - len(holders[partition]), 0
        while missing > 0 and tried < len(room):
            turn %= len(room)
            member_id = room[turn]
            if member_id in holders[partition]:
                turn, tried = turn + 1, tried + 1
                continue
            kept[member_id].add(partition)
            holders[partition].add(member_id)
            missing, tried = missing - 1, 0
            if len(kept[member_id]) == wanted[member_id]:
                del room[turn]
            else:
                turn += 1

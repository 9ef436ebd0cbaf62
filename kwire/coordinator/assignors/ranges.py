"""The ``range`` assignor: neighboring partitions of each topic.

Rules:

- Of n partitions and m subscribers each gets n // m, and the first n % m of them one more.
- Static members come first, by instance, then the others by id. So a member that comes back under
  its instance gets the same range again.
- Topics with the same number of partitions and the same subscribers always get the same
  distribution, so that they can be joined.
- If racks are known, members of different racks exchange partitions as long as more partitions are
  near afterwards, counted over all topics with the same distribution. Within a rack, partitions
  keep their order.
- The present assignment has no influence: the same members get the same ranges.

Source: RangeAssignor of Kafka: the server's for the ranges, the client's (KIP-881) for racks. The
client's assignor takes partitions in order. It takes a match only if all topics that are shared out
alike have it, and racks decide which members get one more. kwire keeps the sizes of the plain
ranges, finds the most matches for them, and leaves the ranges whole if no match is gained.
"""

from collections.abc import Sequence
from itertools import accumulate, chain

from kwire.coordinator.assignors.rack_exchange import exchange
from kwire.coordinator.assignors.spec import AssignmentSpec, Shares


def assign_ranges(spec: AssignmentSpec) -> Shares:
    """The partitions that each member is to have."""
    shares: Shares = {member_id: {} for member_id in spec.members}
    for (count, members), topic_ids in _shared_alike(spec).items():
        quota, extra = divmod(count, len(members))
        sizes = [quota + (place < extra) for place in range(len(members))]
        parts = _cut(range(count), sizes)
        if spec.knows_racks:
            rack_ids = [spec.members[member_id].rack_id for member_id in members]
            parts = _brought_near(parts, rack_ids, [spec.topics[t].racks for t in topic_ids])
        for member_id, part in zip(members, parts, strict=True):
            if part:
                shares[member_id].update(dict.fromkeys(topic_ids, frozenset(part)))
    return shares


def _shared_alike(spec: AssignmentSpec) -> dict[tuple[int, tuple[str, ...]], list[bytes]]:
    """The topics of each number of partitions and each list of members, in the members' order."""
    order = sorted(
        spec.members,
        key=lambda m: (
            spec.members[m].instance_id is None,
            spec.members[m].instance_id or "",
            m,
        ),
    )
    readers: dict[bytes, list[str]] = {}
    for member_id in order:
        for topic_id in spec.members[member_id].topics:
            readers.setdefault(topic_id, []).append(member_id)
    alike: dict[tuple[int, tuple[str, ...]], list[bytes]] = {}
    for topic_id, members in sorted(readers.items()):
        key = (spec.topics[topic_id].partitions, tuple(members))
        alike.setdefault(key, []).append(topic_id)
    return alike


def _cut(indexes: Sequence[int], sizes: Sequence[int]) -> list[Sequence[int]]:
    """Cut a list into parts of these sizes, in order."""
    ends = list(accumulate(sizes))
    assert ends[-1] == len(indexes), (len(indexes), sizes)  # every partition has a reader
    return [indexes[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def _brought_near(
    parts: Sequence[Sequence[int]],
    rack_ids: Sequence[str | None],
    topics: Sequence[tuple[frozenset[str], ...]],
) -> list[Sequence[int]]:
    """As many partitions for each member, more of them near; ``topics`` holds replicas' racks.

    Racks without a replica count as one rack, because no partition is near any of their members.
    """
    known = frozenset[str]().union(*chain.from_iterable(topics))
    places: dict[str | None, list[int]] = {}
    for place, rack_id in enumerate(rack_ids):
        places.setdefault(rack_id if rack_id in known else None, []).append(place)
    worths = [
        tuple(sum(bool(t) and rack_id in t[index] for t in topics) for rack_id in places)
        for index in range(sum(map(len, parts)))
    ]
    held = [list(chain.from_iterable(parts[p] for p in mine)) for mine in places.values()]
    near = list(parts)
    for mine, indexes in zip(places.values(), exchange(held, worths), strict=True):
        for place, part in zip(mine, _cut(indexes, [len(parts[p]) for p in mine]), strict=True):
            near[place] = part
    return near

"""The ``range`` assignor: neighbouring partitions of each topic.

Rules:

- Of n partitions and m subscribers each gets n // m, the first n % m of them one more.
- Static members come first, by instance, then the others by id: who comes back under its instance
  gets the same range again. Topics with the same number of partitions and the same subscribers are
  cut at the same places.
- Racks and what members have play no part: a range that depended on them couldn't be joined.

Source: RangeAssignor of Kafka.
"""

from kwire.coordinator.assignors.spec import AssignmentSpec, Shares


def assign_ranges(spec: AssignmentSpec) -> Shares:
    """What each member is to have."""
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
    shares: Shares = {member_id: {} for member_id in spec.members}
    for topic_id, members in sorted(readers.items()):
        quota, extra = divmod(spec.topics[topic_id].partitions, len(members))
        start = 0
        for place, member_id in enumerate(members):
            end = start + quota + (place < extra)
            if end > start:
                shares[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return shares

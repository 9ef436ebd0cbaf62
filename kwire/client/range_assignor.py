"""The assignor ``range`` of classic groups, which every client knows.

For each topic, its partitions in order are cut into one range for each member that subscribes to
it, in the order of member ids (of instance ids if the members have some). If the division leaves a
remainder, the first members get one partition more. Source: RangeAssignor of Kafka, without racks.
"""

from collections.abc import Mapping, Sequence


def assign_ranges(
    subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> dict[str, dict[str, list[int]]]:
    """The partitions of each member by topic.

    ``subscriptions`` has the topics of each member, ``partitions`` the count for each topic.
    """
    assigned: dict[str, dict[str, list[int]]] = {member: {} for member in subscriptions}
    topics = sorted({topic for wanted in subscriptions.values() for topic in wanted})
    for topic in topics:
        members = sorted(member for member, wanted in subscriptions.items() if topic in wanted)
        each, more = divmod(partitions.get(topic, 0), len(members))
        first = 0
        for place, member in enumerate(members):
            end = first + each + (place < more)
            if end > first:
                assigned[member][topic] = list(range(first, end))
            first = end
    return assigned

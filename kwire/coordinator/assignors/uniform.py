"""The ``uniform`` assignor: as even as subscriptions allow, with as few moves as possible.

Rules:

- A member's *load* is the number of its partitions. If all members read the same topics, their
  loads differ by at most one. Otherwise no further move, and no chain of moves through several
  members, could bring the loads of two members closer together.
- A member keeps its partitions as far as the distribution stays even. It gives up only its surplus.
- A partition is *near* a member if one of its replicas is in the member's rack. If racks are known,
  a member gives up partitions that aren't near first, and gets near ones first.

Source: UniformAssignor of Kafka. If subscriptions differ, Kafka's assignor balances topic by topic,
and so may miss an even distribution. It ignores racks.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from itertools import chain

from kwire.coordinator.assignors.spec import AssignmentSpec, Partition, Shares, to_shares


def assign_uniformly(spec: AssignmentSpec) -> Shares:
    """The partitions that each member is to have."""
    if not spec.members:
        return {}
    given, free = _kept(spec)
    if len({member.topics for member in spec.members.values()}) == 1:
        _share_among_equals(spec, given, free)
    else:
        _Balance(spec, given).share(free)
    return to_shares(spec, given)


def _kept(spec: AssignmentSpec) -> tuple[dict[str, set[Partition]], list[Partition]]:
    """The partitions that members may keep, each with one owner; and the free partitions of all
    topics that members read.
    """
    taken: set[Partition] = set()
    given: dict[str, set[Partition]] = {}
    for member_id in sorted(spec.members):
        member = spec.members[member_id]
        mine = {
            (topic_id, index)
            for topic_id, indexes in member.has.items()
            if topic_id in member.topics
            for index in indexes
            if index < spec.topics[topic_id].partitions and (topic_id, index) not in taken
        }
        taken |= mine
        given[member_id] = mine
    read = set().union(*(member.topics for member in spec.members.values()))
    free = [
        (topic_id, index)
        for topic_id in sorted(read)
        for index in range(spec.topics[topic_id].partitions)
        if (topic_id, index) not in taken
    ]
    return given, free


def _share_among_equals(
    spec: AssignmentSpec, given: dict[str, set[Partition]], free: list[Partition]
) -> None:
    """Give each member the quota; the extra partitions stay with the members that have most."""
    total = len(free) + sum(len(mine) for mine in given.values())
    quota, extra = divmod(total, len(given))
    limits: dict[str, int] = {}
    for member_id in sorted(given, key=lambda m: (-len(given[m]), m)):
        limits[member_id] = quota + (extra > 0)
        extra -= extra > 0
    assert sum(limits.values()) == total, (extra, total)
    for member_id, limit in limits.items():
        surplus = len(given[member_id]) - limit
        if surplus > 0:
            for partition in _farthest(spec, member_id, given[member_id])[:surplus]:
                given[member_id].remove(partition)
                free.append(partition)
    needs = {m: limits[m] - len(given[m]) for m in sorted(limits) if len(given[m]) < limits[m]}
    if spec.knows_racks:
        free = _give_near(spec, given, sorted(free), needs)
    remaining = iter(sorted(free, key=lambda partition: (partition[1], partition[0])))
    while needs:
        for member_id in list(needs):
            given[member_id].add(next(remaining))
            needs[member_id] -= 1
            if not needs[member_id]:
                del needs[member_id]
    assert next(remaining, None) is None, total  # nobody would read what is left


def _farthest(spec: AssignmentSpec, member_id: str, mine: set[Partition]) -> list[Partition]:
    """A member's partitions, in the order in which it should give them up."""
    return sorted(mine, key=lambda p: (spec.is_near(member_id, p), -p[1], p[0]))


def _give_near(
    spec: AssignmentSpec,
    given: dict[str, set[Partition]],
    free: list[Partition],
    needs: dict[str, int],
) -> list[Partition]:
    """Give members free partitions that are near them; return the free partitions that are left.

    Partitions that are near few members come first. Of the members near a partition, the one that
    needs most partitions gets it.
    """
    by_rack: dict[str, list[tuple[int, str]]] = {}
    for member_id, count in needs.items():
        rack_id = spec.members[member_id].rack_id
        if rack_id is not None:
            by_rack.setdefault(rack_id, []).append((-count, member_id))
    sizes = {rack_id: len(members) for rack_id, members in by_rack.items()}
    for members in by_rack.values():
        heapify(members)
    near = {p: sum(sizes.get(rack_id, 0) for rack_id in spec.racks_of(p)) for p in free}
    left = []
    for partition in sorted(free, key=lambda p: (near[p], p)):
        queues = [q for rack_id in spec.racks_of(partition) if (q := by_rack.get(rack_id))]
        if not queues:
            left.append(partition)
            continue
        queue = min(queues, key=lambda q: q[0])
        count, taker = queue[0]
        given[taker].add(partition)
        needs[taker] -= 1
        if needs[taker]:
            heapreplace(queue, (count + 1, taker))
        else:
            heappop(queue)
            del needs[taker]
    return left


class _Balance:
    """Shares partitions out among members whose subscriptions differ."""

    def __init__(self, spec: AssignmentSpec, given: dict[str, set[Partition]]) -> None:
        self.spec = spec
        self.given = given
        self.readers = spec.readers()
        self.load = {member_id: len(mine) for member_id, mine in given.items()}
        self.knows_racks = spec.knows_racks
        self.queues: dict[bytes, dict[str | None, list[tuple[int, str]]]] = {}
        self.held: dict[str, dict[bytes, set[int]]] = {m: {} for m in given}
        for member_id, mine in given.items():
            for partition in mine:
                self._count_partition(member_id, partition)

    def share(self, free: list[Partition]) -> None:
        """Give each free partition to its least loaded reader, then even out the loads."""
        for partition in sorted(free, key=lambda p: (len(self.readers[p[0]]), p)):
            self._give_partition(self._least_loaded(partition), partition)
        while self._pass_on():
            pass

    def _least_loaded(self, partition: Partition) -> str:
        """The reader with the fewest partitions; if racks are known, a near reader is preferred."""
        racks = self.spec.racks_of(partition)
        first: tuple[int, bool, str] | None = None
        for rack_id, queue in self._queues_of(partition[0]).items():
            while queue[0][0] < self.load[queue[0][1]]:  # the load has grown since then
                heapreplace(queue, (self.load[queue[0][1]], queue[0][1]))
            candidate = (queue[0][0], rack_id not in racks, queue[0][1])
            if first is None or candidate < first:
                first = candidate
        assert first is not None
        return first[2]

    def _queues_of(self, topic_id: bytes) -> dict[str | None, list[tuple[int, str]]]:
        """The readers of a topic by their load: one heap for each rack, or one if none is known."""
        queues = self.queues.get(topic_id)
        if queues is None:
            queues = self.queues[topic_id] = {}
            for member_id in self.readers[topic_id]:
                rack_id = self.spec.members[member_id].rack_id if self.knows_racks else None
                queues.setdefault(rack_id, []).append((self.load[member_id], member_id))
            for queue in queues.values():
                heapify(queue)
        return queues

    def _pass_on(self) -> bool:
        """Move partitions along a chain from a member to one whose load is at least two lower.

        Returns whether there is such a chain. A search that fails would also fail from the members
        that it reached, because searches start at the largest loads. So they are skipped.
        """
        visited: set[str] = set()
        most = max(self.load, key=self.load.__getitem__)
        # Sorting costs more than the move, which nearly always starts at a member with most.
        for start in chain([most], self._by_load()):
            if start not in visited:
                moves = self._chain_from(start, visited)
                if moves:
                    for giver, topic_id, taker in moves:
                        self._move_partition(giver, topic_id, taker)
                    return True
        return False

    def _by_load(self) -> Iterator[str]:
        """The members, the largest load first; a generator, because few calls need the order."""
        yield from sorted(self.load, key=lambda m: (-self.load[m], m))

    def _chain_from(self, start: str, visited: set[str]) -> list[tuple[str, bytes, str]]:
        """The shortest chain of moves from a member to one whose load is at least two lower."""
        came_by: dict[str, tuple[str, bytes]] = {}
        seen_topics: set[bytes] = set()
        reached = {start}
        queue = deque([start])
        while queue:
            giver = queue.popleft()
            for topic_id in sorted(self.held[giver]):
                if topic_id in seen_topics:
                    continue
                seen_topics.add(topic_id)
                takers = [m for m in self.readers[topic_id] if m not in reached]
                came_by.update(dict.fromkeys(takers, (giver, topic_id)))
                # Take the lowest load, so that this member need not pass the partition on later.
                least = min(takers, key=self.load.__getitem__, default=start)
                if self.load[least] <= self.load[start] - 2:
                    return _trace(least, start, came_by)
                reached.update(takers)
                queue.extend(takers)
        visited |= reached
        return []

    def _move_partition(self, giver: str, topic_id: bytes, taker: str) -> None:
        candidates = {(topic_id, index) for index in self.held[giver][topic_id]}
        partition = min(
            candidates,
            key=lambda p: (
                self.spec.is_near(giver, p),
                not self.spec.is_near(taker, p),
                -p[1],
            ),
        )
        self.given[giver].remove(partition)
        self.load[giver] -= 1
        indexes = self.held[giver][topic_id]
        indexes.remove(partition[1])
        if not indexes:
            del self.held[giver][topic_id]
        self._give_partition(taker, partition)

    def _give_partition(self, taker: str, partition: Partition) -> None:
        assert partition not in self.given[taker], (taker, partition)
        self.given[taker].add(partition)
        self.load[taker] += 1
        self._count_partition(taker, partition)

    def _count_partition(self, member_id: str, partition: Partition) -> None:
        self.held[member_id].setdefault(partition[0], set()).add(partition[1])


def _trace(
    end: str, start: str, came_by: dict[str, tuple[str, bytes]]
) -> list[tuple[str, bytes, str]]:
    """The moves of a chain, the last one first; each is for another topic, so any order does."""
    chain = []
    taker = end
    while taker != start:
        giver, topic_id = came_by[taker]
        chain.append((giver, topic_id, taker))
        taker = giver
    return chain

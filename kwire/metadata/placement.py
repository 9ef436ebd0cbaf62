"""New partitions, and which brokers hold their replicas: placed by kwire or by a client; pure.

Rules:

- A partition's replicas go to the racks in turn, and in each rack to its brokers in turn. The next
  partition begins one rack and one broker further. So leaders and replicas spread evenly, first
  over racks, then over brokers.
- The leader is an active broker, neither fenced nor in controlled shutdown. In each rack active
  brokers are taken first. Apache Kafka may place a partition of one replica on a broker that is
  shutting down, and then refuses the topic.
- After as many partitions as there are active brokers, racks and brokers are shuffled, so that
  the same sets of brokers don't come again and again.
- More partitions of a topic go on where its last partition was.
- A broker whose data directories are all cordoned gets no replica (``cordons``).
- The replicas on active brokers are in sync, and the first of them leads.
- One request may create 10,000 partitions, which takes too long for one turn of the event loop. So
  ``placed`` and ``assigned`` are ``Steps``: generators that yield before each piece. The caller
  decides what happens between two pieces: a handler serves other requests, ``at_once`` does
  nothing.

Source: StripedReplicaPlacer and ReplicationControlManager of Kafka.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import TypeAlias, TypeVar

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.cordons import is_cordoned, manual_refusal
from kwire.metadata.image import BrokerImage, MetadataImage, PartitionImage

Replicas = tuple[int, ...]

_T = TypeVar("_T")

Steps: TypeAlias = Generator[None, None, _T]
"""A generator that yields before each piece, and returns the result."""

PARTITIONS_PER_STEP = 50


class Placer:
    """Places the replicas of one topic's new partitions.

    ``existing`` are the replicas of the topic's older partitions.
    """

    def __init__(
        self, brokers: Iterable[BrokerImage], random: Random, existing: Sequence[Replicas] = ()
    ) -> None:
        self._random = random
        by_rack: dict[str | None, list[BrokerImage]] = {}
        self._brokers = 0
        self._active = 0
        self._are_some_unfenced = False
        for broker in sorted(brokers, key=lambda broker: broker.node_id):
            by_rack.setdefault(broker.rack, []).append(broker)
            self._brokers += 1
            self._active += broker.is_active
            self._are_some_unfenced |= not broker.is_fenced
        # A rack without a name comes first, as in Kafka.
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack(by_rack[name], random, existing) for name in names]
        self._offset = self._first_rack(existing)
        self._round = 0

    def _first_rack(self, existing: Sequence[Replicas]) -> int:
        """The rack after that of the last partition's leader, or any."""
        if existing:
            leader = existing[-1][0]
            for number, rack in enumerate(self._racks):
                if leader in rack.nodes:
                    return number + 1
        return self._random.randrange(len(self._racks)) if self._racks else 0

    def place(self, replication_factor: int) -> Replicas:
        """The node ids of the next partition, its leader first.

        Raises KafkaError (INVALID_REPLICATION_FACTOR) if there are too few brokers.
        """
        self._check(replication_factor)
        if self._round == self._active > 1:
            self._shuffle()
            self._round = 0
        racks = self._racks
        self._offset %= len(racks)
        place = self._offset
        while (leader := racks[place % len(racks)].next_active(self._round)) is None:
            place += 1
        replicas = [leader]
        leaders_rack: int | None = place % len(racks)
        place = self._offset
        while len(replicas) < replication_factor:
            number = place % len(racks)
            if number == leaders_rack:
                leaders_rack = None  # the leader was the turn of this rack
            else:
                node_id = racks[number].next(self._round)
                if node_id is not None:
                    replicas.append(node_id)
            place += 1
        self._round += 1
        self._offset += 1
        # Two replicas of a partition on one broker would be one copy.
        assert len(set(replicas)) == replication_factor, replicas
        return tuple(replicas)

    def _check(self, replication_factor: int) -> None:
        if replication_factor <= 0:
            reason = (
                f"Invalid replication factor {replication_factor}: "
                "the replication factor must be positive."
            )
        elif not self._active:
            shutdown = " or in controlled shutdown" if self._are_some_unfenced else ""
            reason = (
                f"All brokers are currently fenced{shutdown}, or have all their log directories "
                "cordoned."
            )
        elif replication_factor > self._brokers:
            reason = (
                f"The target replication factor of {replication_factor} cannot be reached because "
                f"only {self._brokers} broker(s) are registered."
            )
        else:
            return
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): {reason}",
        )

    def _shuffle(self) -> None:
        self._random.shuffle(self._racks)
        for rack in self._racks:
            rack.shuffle(self._random)


class _Rack:
    """The brokers of one rack."""

    def __init__(
        self, brokers: Sequence[BrokerImage], random: Random, existing: Sequence[Replicas]
    ) -> None:
        self.nodes = {broker.node_id for broker in brokers}
        active = [broker.node_id for broker in brokers if broker.is_active]
        others = [broker.node_id for broker in brokers if not broker.is_active]
        last = self._last_used(existing)
        after = active.index(last) + 1 if last in active else None
        self._active = _Turn(active, random, after)
        self._others = _Turn(others, random, None)

    def _last_used(self, existing: Sequence[Replicas]) -> int | None:
        """The first replica in this rack of the last partition that has any replica here."""
        for replicas in reversed(existing):
            for node_id in replicas:
                if node_id in self.nodes:
                    return node_id
        return None

    def next_active(self, round_: int) -> int | None:
        """The next active broker of a round; None when all have had their turn."""
        return self._active.next(round_)

    def next(self, round_: int) -> int | None:
        """The next broker of a round, active ones first; None when all have had their turn."""
        node_id = self._active.next(round_)
        return self._others.next(round_) if node_id is None else node_id

    def shuffle(self, random: Random) -> None:
        """Change the order of the brokers."""
        self._active.shuffle(random)
        self._others.shuffle(random)


class _Turn:
    """Brokers in turn: each once in a round, and each round begins one broker further."""

    def __init__(self, nodes: list[int], random: Random, first: int | None) -> None:
        self._nodes = nodes
        self._taken = self._round = 0
        self._offset = random.randrange(len(nodes)) if nodes and first is None else first or 0

    def next(self, round_: int) -> int | None:
        """The next broker of a round; None when all have had their turn."""
        if round_ != self._round:
            self._round, self._taken = round_, 0
            self._offset += 1
        assert self._taken <= len(self._nodes), (self._taken, self._nodes)
        if self._taken == len(self._nodes):
            return None
        node_id = self._nodes[(self._offset + self._taken) % len(self._nodes)]
        self._taken += 1
        return node_id

    def shuffle(self, random: Random) -> None:
        """Change the order."""
        random.shuffle(self._nodes)


def at_once(steps: "Steps[_T]") -> _T:
    """The result of all steps, one after the other."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: _T = done.value
            return result


def placed(
    image: MetadataImage,
    placer: Placer,
    count: int,
    replication_factor: int,
) -> "Steps[list[PartitionImage]]":
    """``count`` new partitions on brokers that kwire chooses; KafkaError if it finds none."""
    made: list[PartitionImage] = []
    for piece in _ranges(count):
        yield
        for _ in piece:
            replicas = placer.place(replication_factor)
            isr = _in_sync(image, replicas)
            assert isr[0] == replicas[0], (replicas, isr)  # the preferred leader leads at once
            made.append(PartitionImage(isr[0], 0, replicas, isr))
    assert len(made) == count, (len(made), count)
    return made


def assigned(
    image: MetadataImage, assignments: Mapping[int, Sequence[int]], first: int = 0
) -> "Steps[list[PartitionImage]]":
    """The partitions from ``first`` on, on the brokers that a client asks for.

    ``assignments`` has the node ids by partition. Raises KafkaError (INVALID_REPLICA_ASSIGNMENT).
    """
    if min(assignments) != first or max(assignments) != first + len(assignments) - 1:
        raise _refusal("Partitions should be a consecutive 0-based integer sequence.")
    factor = len(assignments[first])
    made: list[PartitionImage] = []
    for piece in _ranges(len(assignments)):
        yield
        for index in range(first + piece.start, first + piece.stop):
            nodes = assignments[index]
            _check(image, index, nodes, factor)
            isr = _in_sync(image, nodes)
            if not isr:
                raise _refusal(
                    "All brokers specified in the manual partition assignment for partition "
                    f"{index} are fenced or in controlled shutdown."
                )
            made.append(PartitionImage(isr[0], 0, tuple(nodes), isr))
    return made


def _check(image: MetadataImage, index: int, nodes: Sequence[int], factor: int) -> None:
    """Raise KafkaError unless a partition can be on these brokers.

    A list may be much longer than the cluster has brokers. The check still ends soon, because it
    ends at the first broker that isn't registered or is named twice.
    """
    if not nodes:
        raise _refusal(f"Partition {index} has no replicas.")
    if len(nodes) != factor:
        raise _refusal("All partitions should have the same number of replicas.")
    seen = set()
    for node in nodes:
        if node not in image.brokers:
            raise _refusal(f"Broker {node} in partition {index} is not registered.")
        if node in seen:
            raise _refusal(f"Partition {index} names broker {node} more than once.")
        if is_cordoned(image, image.brokers[node]):
            raise _refusal(manual_refusal(node))
        seen.add(node)


def _in_sync(image: MetadataImage, replicas: Sequence[int]) -> Replicas:
    return tuple(node for node in replicas if image.is_active(node))


def _ranges(count: int) -> Iterator[range]:
    for start in range(0, count, PARTITIONS_PER_STEP):
        yield range(start, min(start + PARTITIONS_PER_STEP, count))


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

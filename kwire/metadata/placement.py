"""Which brokers hold the replicas of new partitions; pure.

Rules:

- A partition's replicas go to the racks in turn, and in each rack to its brokers in turn. The next
  partition begins one rack and one broker further. So leaders and replicas spread evenly, first
  over racks, then over brokers.
- The leader is an unfenced broker. In each rack unfenced brokers are taken first.
- After as many partitions as there are unfenced brokers, racks and brokers are shuffled, so that
  the same sets of brokers don't come again and again.
- More partitions of a topic go on where its last partition was.

Source: StripedReplicaPlacer of Kafka.
"""

from collections.abc import Iterable, Sequence
from random import Random

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import BrokerImage

Replicas = tuple[int, ...]


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
        self._unfenced = 0
        for broker in sorted(brokers, key=lambda broker: broker.node_id):
            by_rack.setdefault(broker.rack, []).append(broker)
            self._brokers += 1
            self._unfenced += not broker.is_fenced
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
        if self._round == self._unfenced > 1:
            self._shuffle()
            self._round = 0
        racks = self._racks
        self._offset %= len(racks)
        place = self._offset
        while (leader := racks[place % len(racks)].next_unfenced(self._round)) is None:
            place += 1
        replicas = [leader]
        leaders_rack: int | None = place % len(racks)
        place = self._offset
        while len(replicas) < replication_factor:
            number = place % len(racks)
            if number == leaders_rack:
                leaders_rack = None  # it has had its turn
            else:
                node_id = racks[number].next(self._round)
                if node_id is not None:
                    replicas.append(node_id)
            place += 1
        self._round += 1
        self._offset += 1
        return tuple(replicas)

    def _check(self, replication_factor: int) -> None:
        if replication_factor <= 0:
            reason = (
                f"Invalid replication factor {replication_factor}: "
                "the replication factor must be positive."
            )
        elif not self._unfenced:
            reason = "All brokers are currently fenced."
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
        unfenced = [broker.node_id for broker in brokers if not broker.is_fenced]
        fenced = [broker.node_id for broker in brokers if broker.is_fenced]
        last = self._last_used(existing)
        after = unfenced.index(last) + 1 if last in unfenced else None
        self._unfenced = _Turn(unfenced, random, after)
        self._fenced = _Turn(fenced, random, None)

    def _last_used(self, existing: Sequence[Replicas]) -> int | None:
        """The first broker of this rack in the last partition that has one here."""
        for replicas in reversed(existing):
            for node_id in replicas:
                if node_id in self.nodes:
                    return node_id
        return None

    def next_unfenced(self, round_: int) -> int | None:
        """The next unfenced broker of a round; None when all have had their turn."""
        return self._unfenced.next(round_)

    def next(self, round_: int) -> int | None:
        """The next broker of a round, unfenced ones first; None when all have had their turn."""
        node_id = self._unfenced.next(round_)
        return self._fenced.next(round_) if node_id is None else node_id

    def shuffle(self, random: Random) -> None:
        """Change the order of the brokers."""
        self._unfenced.shuffle(random)
        self._fenced.shuffle(random)


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
        if self._taken == len(self._nodes):
            return None
        node_id = self._nodes[(self._offset + self._taken) % len(self._nodes)]
        self._taken += 1
        return node_id

    def shuffle(self, random: Random) -> None:
        """Change the order."""
        random.shuffle(self._nodes)

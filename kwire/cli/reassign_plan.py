"""Where the replicas of partitions should be, on the brokers that are to have them; pure.

Rules:

- A replica stays where it is, unless its broker is to have none, or has at least two more than
  another one. So as little as possible is copied.
- A new replica goes to the broker with the fewest, first of all in a rack in which the partition
  has none. A move for the sake of balance never takes a rack from a partition.
- The first replica is the preferred leader. Brokers lead about as many partitions each.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from kwire.client.leaders import TopicPartition

Assignment = Mapping[TopicPartition, Sequence[int]]


def planned(
    present: Assignment, racks: Mapping[int, str | None], factor: int | None = None
) -> dict[TopicPartition, list[int]]:
    """The replicas of each partition on the brokers of ``racks``, which has each one's rack.

    ``factor`` is how many replicas each is to have, by default as many as now. ValueError if there
    are fewer brokers than that.
    """
    plan = _Plan(racks)
    for one, replicas in sorted(present.items()):
        wanted = len(replicas) if factor is None else factor
        if wanted > len(racks):
            raise ValueError(
                f"{one} is to have {wanted} replicas, and there are {len(racks)} brokers"
            )
        plan.keep(one, [node for node in replicas if node in racks][:wanted])
    for one, replicas in sorted(present.items()):
        plan.fill(one, len(replicas) if factor is None else factor)
    plan.balance()
    plan.balance_leaders()
    return plan.replicas


class _Plan:
    """The replicas that are planned so far, and how many each broker has."""

    def __init__(self, racks: Mapping[int, str | None]) -> None:
        self.replicas: dict[TopicPartition, list[int]] = {}
        self._racks = racks
        self._load: Counter[int] = Counter(dict.fromkeys(racks, 0))

    def keep(self, partition: TopicPartition, nodes: list[int]) -> None:
        """Leave replicas where they are."""
        self.replicas[partition] = nodes
        self._load.update(nodes)

    def fill(self, partition: TopicPartition, wanted: int) -> None:
        """Give a partition the replicas that it lacks."""
        nodes = self.replicas[partition]
        while len(nodes) < wanted:
            free = [node for node in self._racks if node not in nodes]
            best = min(
                free, key=lambda node: (self._shares_rack(nodes, node), self._load[node], node)
            )
            nodes.append(best)
            self._load[best] += 1

    def balance(self) -> None:
        """Move replicas from the brokers with the most to those with the fewest."""
        while self._move_one():
            pass

    def _move_one(self) -> bool:
        for full in sorted(self._load, key=lambda node: (-self._load[node], node)):
            for bare in sorted(self._load, key=lambda node: (self._load[node], node)):
                if self._load[full] - self._load[bare] < 2:
                    break
                for nodes in self.replicas.values():
                    if full in nodes and bare not in nodes and self._keeps_racks(nodes, full, bare):
                        nodes[nodes.index(full)] = bare
                        self._load[full] -= 1
                        self._load[bare] += 1
                        return True
        return False

    def balance_leaders(self) -> None:
        """Put the replica first whose broker leads the fewest, where that makes a difference."""
        leads = Counter(nodes[0] for nodes in self.replicas.values() if nodes)
        for nodes in self.replicas.values():
            best = min(nodes, key=lambda node: (leads[node], nodes.index(node)), default=None)
            if best is not None and leads[nodes[0]] - leads[best] >= 2:
                leads[nodes[0]] -= 1
                leads[best] += 1
                nodes.insert(0, nodes.pop(nodes.index(best)))

    def _shares_rack(self, nodes: Sequence[int], node: int) -> bool:
        """Whether a partition with these replicas has one in the rack of a broker."""
        rack = self._racks[node]
        return rack is not None and any(self._racks[one] == rack for one in nodes)

    def _keeps_racks(self, nodes: Sequence[int], old: int, new: int) -> bool:
        """Whether a partition has as many racks after a move as before."""
        others = [node for node in nodes if node != old]
        return not self._shares_rack(others, new) or self._shares_rack(others, old)

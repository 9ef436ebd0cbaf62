"""The first rebalance of a group: three brokers, of which clients ask any, against one alone.

A broker waits for members that are about to join, and knows of them because they ask it for their
coordinator. In a cluster they may ask another broker, which has to tell the coordinator
(docs/decisions/0008-groups-that-start-together.md).
"""

from collections.abc import Iterator
from pathlib import Path

from bench.cluster.measure import Number
from bench.rows.together import CONSUMERS, shared_s
from compat_tests.cluster import KwireCluster
from kwire.testing.process import BrokerProcess

BAR = 1.5
"""The most that three brokers may take, as a multiple of what one takes."""


def first_rebalance(directory: Path) -> Iterator[Number]:
    """Consumers that start together, and one that starts alone, until they have partitions."""
    found: dict[str, list[float]] = {}
    with BrokerProcess(directory / "alone") as broker:
        found["1 broker"] = _taken_s([broker.bootstrap])
    with KwireCluster(directory / "cluster") as cluster:
        addresses = [broker.bootstrap for broker in cluster.brokers.values()]
        found["3 brokers, each asked by some"] = _taken_s(addresses)
    for place, members in enumerate((CONSUMERS, 1)):
        name = f"{members} consumer{'s' * (members > 1)} of a new group, until all hold partitions"
        for brokers, taken_s in found.items():
            yield Number(f"{name}: {brokers}", taken_s[place], "s")
        alone, several = (taken_s[place] for taken_s in found.values())
        yield Number(f"{name}: 3 brokers / 1 broker", several / alone, "x", BAR)


def _taken_s(bootstraps: list[str]) -> list[float]:
    """The medians of many consumers and of one, after a first group that isn't counted."""
    shared_s(bootstraps, 1)
    return [shared_s(bootstraps), shared_s(bootstraps, 1)]

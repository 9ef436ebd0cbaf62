"""All scenarios, and the kind of cluster that each needs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, TypeAlias

from bench.reliability.clusters import KAFKA, KWIRE, Trial, kafka, kwire
from bench.reliability.cut_off import broker_cut, clients_cut
from bench.reliability.full_disk import disk_full, kafka_with_small_disk, kwire_with_small_disk
from bench.reliability.network import cabled_kafka, cabled_kwire
from bench.reliability.scenarios import Scenarios, Seen
from bench.reliability.slow_link import slow_link

Maker: TypeAlias = Callable[[Path], AbstractContextManager[Trial]]
Scenario: TypeAlias = Callable[[Scenarios], Iterator[Seen]]


class Group(NamedTuple):
    """Scenarios that are run on one cluster, one after the other; who makes that cluster."""

    scenarios: dict[str, Scenario]
    makers: dict[str, Maker]


GROUPS = (
    Group(dict(Scenarios.by_name()), {KWIRE: kwire, KAFKA: kafka}),
    Group(
        {"P8": clients_cut, "P10": broker_cut, "P14": slow_link},
        {KWIRE: cabled_kwire, KAFKA: cabled_kafka},
    ),
    Group({"P13": disk_full}, {KWIRE: kwire_with_small_disk, KAFKA: kafka_with_small_disk}),
)
NAMES = sorted((name for group in GROUPS for name in group.scenarios), key=lambda n: int(n[1:]))

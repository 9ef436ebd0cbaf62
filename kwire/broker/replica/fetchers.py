"""Starts tasks that fetch from each leader, and gives each followed partition to one of them.

Rules:

- A partition is fetched from the leader that its object names. It isn't fetched while it has no
  leader, if its data directory has failed or has no room, or when its role has ended.
- ``num.replica.fetchers`` tasks fetch from one leader, at most ``MOST_FETCHERS``. The name of a
  partition decides which of them fetches it. When the setting changes, partitions move to other
  tasks, except a partition whose log is being truncated.
- A task begins with its first partition and ends with its last.

Source: ReplicaFetcherManager, AbstractFetcherManager of Kafka.
"""

from collections.abc import Iterable
from functools import partial
from typing import TypeAlias
from zlib import crc32

from kwire.broker.failure_detector import SuspectedBrokers
from kwire.broker.peers import inter_broker_address
from kwire.broker.replica.fetcher import Fetcher
from kwire.broker.replica.fetching_broker import FetchingBroker
from kwire.broker.replica.follower_partition import FollowerPartition
from kwire.client.peer import OpenStream, open_tcp

NOBODY = -1
MOST_FETCHERS = 8
"""The leader would end sessions of a follower with more tasks
(``replica_sessions.MOST_OF_A_BROKER``)."""

Place: TypeAlias = tuple[int, int]
"""The leader from which a partition is fetched, and the number of the task."""


class Fetchers:
    """The tasks that fetch for one broker; ``listener`` names the listener for brokers."""

    def __init__(
        self, broker: FetchingBroker, listener: object = None, open_stream: OpenStream = open_tcp
    ) -> None:
        self.suspects = SuspectedBrokers()
        self._broker = broker
        self._listener = listener
        self._open_stream = open_stream
        self._fetchers: dict[Place, Fetcher] = {}
        self._places: dict[FollowerPartition, Place] = {}
        self._count = 1

    @property
    def leaders(self) -> list[int]:
        """The brokers from which partitions are fetched."""
        return sorted({leader for leader, _ in self._fetchers})

    def place(self, moved: Iterable[FollowerPartition]) -> None:
        """Fetch partitions from their present leaders; see ``ReplicaManager.moved_followers``."""
        count = min(self._broker.integer("num.replica.fetchers"), MOST_FETCHERS)
        if count != self._count:
            self._count = count
            moved = dict.fromkeys((*self._places, *moved))
        woken: dict[Place, bool] = {}
        for partition in moved:
            before, place = self._places.get(partition), self._place_of(partition)
            if before and place and before[0] == place[0] and partition.cutting is not None:
                place = before
            if before is not None and before != place:
                self._fetchers[before].leave(partition)
                woken.setdefault(before, False)
            if place is None:
                self._places.pop(partition, None)
            else:
                self._places[partition] = place
                self._fetcher(place).follow(partition)
                woken[place] = True
        for place, is_urgent in woken.items():
            self._fetchers[place].wake(is_urgent=is_urgent)

    def _place_of(self, partition: FollowerPartition) -> Place | None:
        if partition.is_deleted or partition.is_offline or partition.leader == NOBODY:
            return None
        if partition.log.health.is_full:
            return None
        name = f"{partition.topic}-{partition.index}".encode()
        return partition.leader, crc32(name) % self._count if self._count > 1 else 0

    def _fetcher(self, place: Place) -> Fetcher:
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            leader, number = place
            fetcher = Fetcher(
                self._broker,
                leader,
                partial(self._address, leader),
                self._open_stream,
                self.suspects,
                number,
            )
            self._fetchers[place] = fetcher
            self._broker.background.start_soon(self._run_fetcher, place, fetcher)
        return fetcher

    async def _run_fetcher(self, place: Place, fetcher: Fetcher) -> None:
        """Run a task while it has partitions; partitions may be added while it ends."""
        await fetcher.run()
        assert fetcher.is_idle, place  # nobody else would fetch its partitions
        assert self._fetchers[place] is fetcher, place
        del self._fetchers[place]

    def _address(self, leader: int) -> tuple[str, int] | None:
        broker = self._broker.image.brokers.get(leader)
        return None if broker is None else inter_broker_address(broker, self._listener)

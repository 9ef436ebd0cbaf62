"""Which partition is fetched from whom: one task for each leader, compared with the roles.

Rules:

- A partition is fetched from the leader that its object names, and from nobody while it has no
  leader, if its data directory has failed, or when its role has ended.
- A task begins with the first partition of a leader and ends with the last.

Source: ReplicaFetcherManager, AbstractFetcherManager of Kafka.
"""

from collections.abc import Iterable
from functools import partial

from kwire.broker.fetcher import Fetcher, FetchingBroker
from kwire.broker.follower_partition import FollowerPartition
from kwire.broker.peers import inter_broker_address
from kwire.broker.suspects import Suspects
from kwire.client.peer import OpenStream, open_tcp

NOBODY = -1


class Fetchers:
    """The tasks that fetch for one broker; ``listener`` is where brokers reach each other."""

    def __init__(
        self, broker: FetchingBroker, listener: object = None, open_stream: OpenStream = open_tcp
    ) -> None:
        self.suspects = Suspects()
        self._broker = broker
        self._listener = listener
        self._open_stream = open_stream
        self._fetchers: dict[int, Fetcher] = {}
        self._leaders: dict[FollowerPartition, int] = {}

    @property
    def leaders(self) -> list[int]:
        """The brokers from which something is fetched."""
        return sorted(self._fetchers)

    def place(self, moved: Iterable[FollowerPartition]) -> None:
        """Fetch partitions from their present leaders; see ``ServedPartitions.moved_followers``."""
        woken: dict[int, bool] = {}
        for partition in moved:
            before = self._leaders.get(partition, NOBODY)
            leader = partition.leader
            if partition.is_deleted or partition.is_offline:
                leader = NOBODY
            if before not in (NOBODY, leader):
                self._fetchers[before].leave(partition)
                woken.setdefault(before, False)
            if leader == NOBODY:
                self._leaders.pop(partition, None)
            else:
                self._leaders[partition] = leader
                self._fetcher(leader).follow(partition)
                woken[leader] = True
        for leader, is_urgent in woken.items():
            self._fetchers[leader].wake(is_urgent=is_urgent)

    def _fetcher(self, leader: int) -> Fetcher:
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            address = partial(self._address, leader)
            fetcher = Fetcher(self._broker, leader, address, self._open_stream, self.suspects)
            self._fetchers[leader] = fetcher
            self._broker.background.start_soon(self._run, fetcher)
        return fetcher

    async def _run(self, fetcher: Fetcher) -> None:
        """Fetch while something is followed; partitions may come while the task ends."""
        await fetcher.run()
        del self._fetchers[fetcher.leader]

    def _address(self, leader: int) -> tuple[str, int] | None:
        broker = self._broker.image.brokers.get(leader)
        return None if broker is None else inter_broker_address(broker, self._listener)

"""Says on stderr which partitions have no leader, while the others are read.

Rules:

- A partition is named once it has had no leader for a moment: an election is over sooner. A line
  names all that are new, so that there is no line for each partition.
- When all of them have a leader, a line says so. After that a partition may be named again.
- If no partition has a leader, nothing can be read, and ``Cluster.retrying`` says what it waits
  for.
"""

import sys
from collections.abc import Collection, Iterable

import trio

from kwire.client.cluster import TRY_AGAIN, Cluster
from kwire.client.leaders import NoLeader, TopicPartition, find_leaders
from kwire.client.patience import SILENT_S
from kwire.errors import KafkaError

_SHOWN = 5


class Leaderless:
    """The partitions without a leader, among those that a command reads."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._moment_s = min(SILENT_S, cluster.settings.give_up_s / 4)
        self._since_s: dict[TopicPartition, float] = {}
        self._told: set[TopicPartition] = set()

    def now(self, missing: Iterable[TopicPartition]) -> bool:
        """Note all partitions that have no leader now; whether each of them has been named."""
        now_s = trio.current_time()
        self._since_s = {one: self._since_s.get(one, now_s) for one in missing}
        lasting = [one for one, at in self._since_s.items() if now_s - at >= self._moment_s]
        new = [one for one in lasting if one not in self._told]
        if new:
            _print_warning(f"{without_leader(new)}; the other partitions are read")
        elif self._told and not self._since_s:
            _print_warning("all partitions have a leader again")
        self._told = {one for one in self._since_s if one in self._told or one in lasting}
        return len(self._told) == len(self._since_s)

    def only(self, partitions: Collection[TopicPartition]) -> None:
        """Forget all other partitions: this command no longer reads them."""
        self._since_s = {one: at for one, at in self._since_s.items() if one in partitions}
        self._told.intersection_update(partitions)

    async def split(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[list[TopicPartition], dict[TopicPartition, int]]:
        """The partitions with a leader, and those that have had none for a moment.

        The latter with their leader epochs, -1 if unknown. KafkaError if all have none for long.
        """

        async def look() -> tuple[list[TopicPartition], dict[TopicPartition, int]]:
            found = await find_leaders(self._cluster, partitions)
            errors = {one: got for one, got in found.items() if isinstance(got, KafkaError)}
            for error in errors.values():
                if error.code not in TRY_AGAIN:
                    raise error
            led = [one for one in found if one not in errors]
            if errors and not (led and self.now(errors)):
                raise next(iter(errors.values()))
            return led, {
                one: error.epoch if isinstance(error, NoLeader) else -1
                for one, error in errors.items()
            }

        return await self._cluster.retrying(look)


def without_leader(partitions: Collection[TopicPartition]) -> str:
    """The beginning of a line about partitions that have no leader."""
    names = [str(one) for one in partitions]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more} {'has' if len(names) == 1 else 'have'} no leader"


def _print_warning(text: str) -> None:
    print(f"kwire: {text}", file=sys.stderr)

"""Mistakes in answers to fetches and in fetch connections; ``bugs`` has them with the others."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kwire.broker.fetch_sessions import WantedPartition
from kwire.broker.partition import Partition
from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.broker.replica.replica_sessions import ReplicaPosition
from kwire.broker.replica.taskless_fetching import TasklessFetching
from kwire.handlers import replica_fetch
from kwire.handlers.lib.reading import Reading

# Private attributes: a mistake is put in where a broker's code would have it.


@contextmanager
def _as_if_all_were_replicated(partitions: Iterable[Partition]) -> Iterator[None]:
    known = [(one, one.high_watermark) for one in partitions]
    for one, _ in known:
        if isinstance(one, LeaderPartition):
            one.high_watermark = one.log.log_end_offset
    try:
        yield
    finally:
        for one, watermark in known:
            if isinstance(one, LeaderPartition):
                one.high_watermark = watermark


def followers_are_told_the_end(patch: Any) -> None:
    """An answer tells a follower the leader's end as the high watermark."""
    read = replica_fetch._read_partition

    def too_far(position: ReplicaPosition, *args: Any, **how: Any) -> Any:
        partition = position.partition
        with _as_if_all_were_replicated([] if partition is None else [partition]):
            return read(position, *args, **how)

    patch.setattr(replica_fetch, "_read_partition", too_far)


def what_was_sent_counts(patch: Any) -> None:
    """A leader takes for replicated what it is about to send, before the follower has it."""
    record = replica_fetch._record_position

    def ahead(partition: LeaderPartition, position: ReplicaPosition) -> None:
        asked, position.fetch_offset = position.fetch_offset, partition.log.log_end_offset
        try:
            record(partition, position)
        finally:
            position.fetch_offset = asked

    patch.setattr(replica_fetch, "_record_position", ahead)


def leaders_show_everything(patch: Any) -> None:
    """A consumer reads from the leader beyond what is replicated."""
    read = Reading.read_partition

    def too_far(reading: Reading, wanted: WantedPartition, **how: Any) -> Any:
        name = reading._name
        found = None if name is None else reading._served(name, wanted.partition)
        with _as_if_all_were_replicated([] if found is None else [found]):
            return read(reading, wanted, **how)

    patch.setattr(Reading, "read_partition", too_far)


def links_hear_no_news(patch: Any) -> None:
    """A link goes on while its fetcher has other partitions, or another epoch, to ask for."""
    begin = TasklessFetching.__init__

    def deaf(fetching: TasklessFetching, *args: Any) -> None:
        begin(fetching, *args)
        fetching.has_news = lambda: False

    patch.setattr(TasklessFetching, "__init__", deaf)

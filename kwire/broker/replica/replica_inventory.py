"""Which replicas a broker of a cluster has in its data directories; it registers with this list.

Rules:

- While a directory is offline, a replica that isn't found may be in it. It is not reported as lost.
- A broker creates the logs of new partitions before it is unfenced. So if the log of a partition
  that once had a leader is missing, its records are lost.
- If the last stop wasn't clean and the machine has restarted, all replicas may lack records at the
  end.
- At each start, the log names the partitions here that no broker can lead, because their only
  replica is lost, or all replicas that had all records; and says what to do. It also names the
  partitions whose replica is copied, because the directories don't have it.
"""

import logging
from collections.abc import Iterable

from kwire.config.broker import absolute
from kwire.errors import KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import NO_TOPIC_ID
from kwire.metadata.image import BrokerImage, MetadataImage
from kwire.metadata.lost_replicas import (
    NEVER_MADE,
    OFFLINE,
    Held,
    Replica,
    lost_partitions,
    lost_with_all_replicas,
)

log = logging.getLogger(__name__)

SHOWN = 20
"""How many partitions one line of the log names."""


def lock_names(manager: LogManager) -> tuple[str, ...]:
    """The names of the locks of the data directories, which this process holds."""
    names = [data.lock_name for data in manager.data_directories]
    return tuple(name for name in names if name is not None)


def known_directories(manager: LogManager, before: BrokerImage | None) -> tuple[str, ...]:
    """The ids of the data directories; while one is offline, also those registered ``before``."""
    ids = [data.meta.directory_id for data in manager.data_directories if data.meta is not None]
    if manager.failures and before is not None:
        ids += before.directories
    return tuple(dict.fromkeys(ids))


def open_entries(manager: LogManager, entries: Iterable[str]) -> tuple[str, ...]:
    """Those entries of ``log.dirs`` whose directories aren't offline."""
    return tuple(entry for entry in entries if absolute(entry) not in manager.failures)


def replicas_of(manager: LogManager) -> Held:
    """Looks for the replica of a partition on the disks."""
    ids = {data.path: data.meta.directory_id for data in manager.data_directories if data.meta}

    def held(topic: str, index: int, topic_id: bytes) -> Replica | None:
        found = _log_of(manager, topic, index, topic_id)
        if found is not None:
            return Replica(ids[found.directory.parent], found.leader_epochs.latest)
        if manager.failures:
            return OFFLINE
        known = (data.high_watermarks.get((topic, index), 0) for data in manager.data_directories)
        return None if any(known) else NEVER_MADE

    return held


def _log_of(manager: LogManager, topic: str, index: int, topic_id: bytes) -> PartitionLog | None:
    """The log of a partition on the disks; a log of another topic of the same name is none."""
    for found in (manager.logs.get((topic, index)), *manager.rivals):
        if (
            found is not None
            and (found.topic, found.partition) == (topic, index)
            and found.topic_id in (topic_id, NO_TOPIC_ID)
        ):
            return found
    return None


def may_lack_records(manager: LogManager, before: BrokerImage | None) -> bool:
    """Whether replicas may lack records that they had when the broker was registered ``before``."""
    if before is None:
        return False
    used = {found.health.path for found in manager.logs.values()}
    return any(
        data.path in used and data.marks is not None and not data.marks.are_of(before.epoch)
        for data in manager.data_directories
    )


def make_new_logs(
    manager: LogManager, image: MetadataImage, node_id: int, config: LogConfig, now_ms: int
) -> None:
    """Make the logs of partitions that never had a record; called in a thread.

    A log that can't be made is tried again when the broker opens its partitions.
    """
    held = replicas_of(manager)
    for topic in image.topics_by_name.values():
        for index, partition in enumerate(topic.partitions):
            is_ours = node_id in partition.isr
            if is_ours and held(topic.name, index, topic.topic_id) in (None, NEVER_MADE):
                try:
                    manager.get_or_create(topic.name, index, topic.topic_id, config, now_ms)
                except KafkaError as error:
                    log.warning("cannot make the log of %s-%d: %s", topic.name, index, error)


def log_copied_partitions(
    manager: LogManager, before: BrokerImage | None, image: MetadataImage, node_id: int
) -> None:
    """Log the partitions whose replica isn't here, and is copied from the other replicas.

    It is a warning if a directory is gone that the broker had when it was registered ``before``.
    Otherwise the partitions are probably new.
    """
    if manager.failures:
        return  # the replicas may be in a directory that is offline
    copied = [
        f"{topic.name}-{index}"
        for topic in image.topics_by_name.values()
        for index, partition in enumerate(topic.partitions)
        if node_id in partition.replicas
        and partition.isr
        and node_id not in partition.isr
        and _log_of(manager, topic.name, index, topic.topic_id) is None
    ]
    if copied:
        gone = set(before.directories if before is not None else ())
        gone.difference_update(known_directories(manager, None))
        log.log(
            logging.WARNING if gone else logging.INFO,
            "this broker's data directories don't have its replicas of %d partition(s), which are "
            "lost, or were given to this broker while it was stopped; it copies them from the "
            "other replicas: %s",
            len(copied),
            _first_names(copied),
        )


def log_lost_partitions(image: MetadataImage, node_id: int) -> None:
    """Log the partitions here that no broker can lead, because their records are lost."""
    lost = lost_partitions(image, node_id)
    if lost:
        log.error(
            "this broker's data directories don't have the only replica of %d partition(s), which "
            "stay without a leader: %s; start the broker with the disk that has them (log.dirs), "
            "or, if their records are gone for good, let each of the partitions begin anew, empty: "
            "%s",
            len(lost),
            _first_names(lost),
            _election_command(lost[0]),
        )
    lost = lost_with_all_replicas(image, node_id)
    if lost:
        log.error(
            "all replicas with all records of %d partition(s), of which this broker has one of "
            "several replicas, are lost, so that they stay without a leader: %s; if a disk that "
            "has them is found, start its broker with it (log.dirs), and stop the brokers of "
            "their other replicas; then, or if the records are gone for good, let each of the "
            "partitions begin with what the first of its replicas has whose broker runs, which may "
            "be nothing: %s",
            len(lost),
            _first_names(lost),
            _election_command(lost[0]),
        )


def _election_command(partition: str) -> str:
    """The command that elects any replica of a partition, also one that lacks records."""
    topic, _, index = partition.rpartition("-")
    return (
        "kafka-leader-election.sh --bootstrap-server HOST:PORT --election-type unclean "
        f"--topic {topic} --partition {index}"
    )


def _first_names(partitions: list[str]) -> str:
    more = f" and {len(partitions) - SHOWN} more" if len(partitions) > SHOWN else ""
    return f"{', '.join(partitions[:SHOWN])}{more}"

"""Reads the partition that holds a coordinator's records, and reports damage in it.

A batch that can't be read stops the loading. Later records may depend on that batch, and a person
has to decide whether its records may be lost.
"""

import logging
from collections.abc import Callable, Iterator

from kwire.broker.partition import Partition
from kwire.errors import ErrorCode, KafkaError
from kwire.log.segment import LOG_SUFFIX
from kwire.record.batch import InvalidRecords, RecordBatch

log = logging.getLogger(__name__)


class CoordinatorLog:
    """Every batch of a coordinator's partition; ``file`` is the segment being read.

    ``is_here`` says whether this broker still leads the partition.
    """

    def __init__(self, partition: Partition, is_here: Callable[[Partition], bool]) -> None:
        self._partition = partition
        self._is_here = is_here
        self.file = partition.log.directory

    def __iter__(self) -> Iterator[RecordBatch]:
        """The batches in order.

        Raises InvalidRecords (CORRUPT_MESSAGE) where no batch begins, and KafkaError
        (NOT_LEADER_OR_FOLLOWER) as soon as another broker leads the partition.
        """
        for segment in list(self._partition.log.segments):
            self.file = segment.path(LOG_SUFFIX)
            end = 0
            for header in segment.headers():
                if not self._is_here(self._partition):
                    raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                yield segment.batch_at(header)
                end = header.position + header.size_bytes
            if end < segment.size_bytes:
                raise InvalidRecords(
                    ErrorCode.CORRUPT_MESSAGE, f"no whole record batch begins at position {end}"
                )

    def say_why_not_loaded(self, error: Exception, what: str) -> None:
        """Log why the partition can't be loaded, what can't be used now, and how to mend that."""
        name = f"{self._partition.topic}-{self._partition.index}"
        if isinstance(error, InvalidRecords):
            log.error(
                "%s is damaged: %s, in %s; %s can't be used until it is mended: stop kwire, run "
                "'kwire mend-log %s', which leaves out what is damaged, and start kwire again",
                name,
                error.message,
                self.file,
                what,
                self._partition.log.directory,
            )
        else:
            log.error("cannot load %s, %s can't be used: %s", name, what, error)

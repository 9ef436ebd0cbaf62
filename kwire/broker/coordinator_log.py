"""Reads the partition that holds a coordinator's records, and reports damage in it.

A batch that can't be read stops the loading. Later records may depend on that batch, and a person
has to decide whether its records may be lost.
"""

import logging
from collections.abc import Iterator

from kwire.broker.partition import Partition
from kwire.errors import ErrorCode
from kwire.log.segment import LOG_SUFFIX
from kwire.record.batch import InvalidRecords, RecordBatch

log = logging.getLogger(__name__)


class CoordinatorLog:
    """Every batch of a coordinator's partition; ``file`` is the segment being read."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.file = partition.log.directory

    def __iter__(self) -> Iterator[RecordBatch]:
        """The batches in order; InvalidRecords (CORRUPT_MESSAGE) where no batch begins."""
        for segment in list(self._partition.log.segments):
            self.file = segment.path(LOG_SUFFIX)
            end = 0
            for header in segment.headers():
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

"""The log: Kafka's files under Kafka's names, without network and without an event loop.

``manager`` opens data directories, ``partition_log`` is one partition, ``segment`` one of its
files. Everything is synchronous; time comes in as ``now_ms``; file calls go through ``disk``.

``open_partition`` is for everybody else: it reads a partition's directory without a broker.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.log.reader import PartitionReader

__all__ = ["open_partition"]


def open_partition(path: str | Path) -> "PartitionReader":
    """A reader of the partition in this directory; nothing is written there.

    FileNotFoundError or NotADirectoryError where there is no directory, ValueError where its name
    is not ``topic-partition`` or its ``partition.metadata`` is broken.
    """
    from kwire.log.reader import PartitionReader

    return PartitionReader(Path(path))

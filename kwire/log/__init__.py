"""The log: Kafka's files under Kafka's names, without network and without an event loop.

``manager`` opens data directories, ``partition_log`` is the log of one partition, ``segment`` is
one segment of that log. Every call is synchronous. The caller passes the time as ``now_ms``. Every
file call goes through ``disk``.

``open_partition`` lets other programs read a partition's directory without a broker.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.log.reader import PartitionReader

__all__ = ["open_partition"]


def open_partition(path: str | Path) -> "PartitionReader":
    """Return a reader of the partition in this directory. The reader writes nothing there.

    Raises FileNotFoundError or NotADirectoryError if ``path`` is not a directory, ValueError if the
    directory's name is not ``topic-partition`` or its ``partition.metadata`` is broken.
    """
    from kwire.log.reader import PartitionReader

    return PartitionReader(Path(path))

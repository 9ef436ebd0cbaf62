"""DescribeLogDirs (API key 35): shows log directories and the size of the partitions in them.

Versions 1 to 5, flexible from 2. Changes by version:

- 1: the broker sends the response before it throttles the client (KIP-219).
- 2: flexible encoding.
- 3: the response gains ``error_code``.
- 4: the response gains ``DescribeLogDirsResult.total_bytes`` and
  ``DescribeLogDirsResult.usable_bytes``; KIP-827.
- 5: the response gains ``DescribeLogDirsResult.is_cordoned``.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
)


class DescribableLogDirTopic(Nested):
    """An element of ``topics`` in ``DescribeLogDirsRequest``."""

    topic: str = string()
    partitions: list[int] = array(int32)


class DescribeLogDirsRequest(Request, key=35, versions=(1, 5), flexible=2):
    """Shows log directories and the size of the partitions in them."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable=True)


class DescribeLogDirsPartition(Nested):
    """An element of ``partitions`` in ``DescribeLogDirsTopic``."""

    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


class DescribeLogDirsTopic(Nested):
    """An element of ``topics`` in ``DescribeLogDirsResult``."""

    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Nested):
    """An element of ``results`` in ``DescribeLogDirsResponse``."""

    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(since=4, default=-1, ignorable=True)
    usable_bytes: int = int64(since=4, default=-1, ignorable=True)
    is_cordoned: bool = boolean(since=5, ignorable=True)


class DescribeLogDirsResponse(Response, key=35, versions=(1, 5), flexible=2):
    """The answer to ``DescribeLogDirsRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=3, ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)

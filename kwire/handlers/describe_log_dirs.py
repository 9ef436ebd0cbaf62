"""DescribeLogDirs: the data directories, their partitions and sizes, and the room left.

Behaviour: a directory that is offline is KAFKA_STORAGE_ERROR, without partitions.
"""

import shutil
from pathlib import Path

from kwire.broker.partition import Partition
from kwire.errors import ErrorCode
from kwire.handlers.context import RequestContext
from kwire.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    """Describe every directory; no topics mean all of them."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    shown = [
        partition
        for partition in context.broker.partitions()
        if wanted is None or (partition.topic, partition.index) in wanted
    ]
    failures = context.broker.log_manager.failures
    return DescribeLogDirsResponse(
        results=[
            _directory(path, [p for p in shown if p.log.directory.parent == path])
            if path not in failures
            else _failed(path)
            for path in context.broker.log_manager.directories
        ]
    )


def _directory(path: Path, partitions: list[Partition]) -> DescribeLogDirsResult:
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return _failed(path)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in partitions:
        topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.size_bytes,
            )
        )
    return DescribeLogDirsResult(
        log_dir=str(path),
        topics=list(topics.values()),
        total_bytes=usage.total,
        usable_bytes=usage.free,
    )


def _failed(path: Path) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(
        log_dir=str(path), error_code=ErrorCode.KAFKA_STORAGE_ERROR, topics=[]
    )

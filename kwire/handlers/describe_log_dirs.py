"""DescribeLogDirs: the data directories, their partitions and sizes, and their free space.

Behavior: an offline directory is KAFKA_STORAGE_ERROR, without partitions.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.budget.work import Work
from kwire.errors import ErrorCode
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE, once
from kwire.handlers.lib.slices import give_way, pieces
from kwire.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

BYTES = 40

if TYPE_CHECKING:
    from kwire.log.moving import Move

Topics = dict[str, DescribeLogDirsTopic]


RIGHTS = (once(DESCRIBE),)


async def handle(
    request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse:
    """Describe every directory; if the request names no topics, show all of them."""
    shown = await _topics(await _wanted(request, context.work), context)
    manager = context.broker.log_manager
    failures = manager.failures
    return DescribeLogDirsResponse(
        results=[
            _directory(path, shown.get(path, {}), is_cordoned=manager.is_cordoned(path))
            if path not in failures
            else _failed(path)
            for path in manager.directories
        ]
    )


async def _wanted(request: DescribeLogDirsRequest, work: Work) -> set[tuple[str, int]] | None:
    """The partitions that the request names, None for all partitions."""
    if request.topics is None:
        return None
    wanted: set[tuple[str, int]] = set()
    for topic in request.topics:
        for piece in pieces(topic.partitions):
            await give_way(work)
            wanted.update((topic.topic, index) for index in piece)
    return wanted


async def _topics(
    wanted: set[tuple[str, int]] | None, context: RequestContext
) -> dict[Path, Topics]:
    """The partitions to show, by directory and topic."""
    work = context.work
    found: dict[Path, Topics] = {}
    for piece in pieces(context.broker.hosted()):
        await give_way(work)
        for partition in piece:
            if wanted is not None and (partition.topic, partition.index) not in wanted:
                continue
            topics = found.setdefault(partition.log.directory.parent, {})
            topic = topics.get(partition.topic)
            if topic is None:
                topics[partition.topic] = topic = DescribeLogDirsTopic(name=partition.topic)
            work.answer(BYTES)
            lag = max(partition.high_watermark - partition.log.log_end_offset, 0)
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=partition.index,
                    partition_size=partition.log.size_bytes,
                    offset_lag=lag,
                )
            )
    if "replica_moves" in vars(context.broker):
        await _add_moves(context.broker.replica_moves.all(), wanted, found, work)
    return found


async def _add_moves(
    moves: "list[Move]",
    wanted: set[tuple[str, int]] | None,
    found: dict[Path, Topics],
    work: Work,
) -> None:
    """Add the replicas that are being moved to another directory."""
    for piece in pieces(moves):
        await give_way(work)
        for move in piece:
            name, index = move.key
            if wanted is not None and move.key not in wanted:
                continue
            work.answer(BYTES)
            topics = found.setdefault(move.target.path, {})
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=move.future.size_bytes,
                    offset_lag=move.offset_lag,
                    is_future_key=True,
                )
            )


def _directory(path: Path, topics: Topics, *, is_cordoned: bool) -> DescribeLogDirsResult:
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return _failed(path)
    return DescribeLogDirsResult(
        log_dir=str(path),
        topics=list(topics.values()),
        total_bytes=usage.total,
        usable_bytes=usage.free,
        is_cordoned=is_cordoned,
    )


def _failed(path: Path) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(
        log_dir=str(path), error_code=ErrorCode.KAFKA_STORAGE_ERROR, topics=[]
    )

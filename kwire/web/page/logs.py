"""``/logs`` and ``/segments``: the data directories, their logs, and the segments of a log."""

import os
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kwire.budget.slices import Slices
from kwire.web.cross_loop_calls import Observed
from kwire.web.page.paging import filter_text, page_of, paged, span, whole
from kwire.web.page.site import Site


class Directory(NamedTuple):
    """A data directory; ``problem`` is empty while it is online."""

    path: str
    problem: str
    logs: int
    size_bytes: int


class LogRow(NamedTuple):
    """The log of a partition."""

    size_bytes: int
    topic: str
    partition: int
    directory: str
    segments: int
    log_start: int
    end_offset: int
    recovery_point: int


class SegmentRow(NamedTuple):
    """A segment of a log."""

    base_offset: int
    next_offset: int
    size_bytes: int
    created_ms: int
    newest_ms: int
    is_active: bool


class LogFacts(NamedTuple):
    """A log and its segments."""

    row: LogRow
    segments: list[SegmentRow]


def routes(site: Site) -> list[Route]:
    """The routes of this view."""

    async def logs(request: Request) -> Response:
        directories, rows = await site.broker_calls.run(gather, filter_text(request))
        room = {one.path: _room(one.path) for one in directories if not one.problem}
        rows.sort(key=lambda row: (-row.size_bytes, row.topic, row.partition))
        _, places = span(request, len(rows))
        return site.render(
            request,
            "logs.html",
            title="Logs",
            directories=directories,
            room=room,
            page=page_of(request, rows[places.start : places.stop], len(rows)),
        )

    async def segments(request: Request) -> Response:
        topic = request.query_params.get("topic", "")
        index = whole(request, "partition", 0, 0, (1 << 31) - 1)
        facts = await site.broker_calls.run(gather_segments, topic, index)
        return site.render(
            request,
            "segments.html",
            title=f"Segments of {topic}",
            facts=facts,
            page=paged(request, list(reversed(facts.segments))),
        )

    return [site.route("/logs", logs), site.route("/segments", segments)]


def _room(path: str) -> tuple[int, int] | None:
    """The free and the total bytes of a disk, read in this thread: a broken disk may block it."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize


async def gather(observed: Observed, wanted: str) -> tuple[list[Directory], list[LogRow]]:
    """The directories, and the logs of topics with ``wanted`` in the name."""
    broker, slices = observed.broker, Slices()
    sizes: dict[str, list[int]] = {}
    rows = []
    for partition in broker.partitions():
        await slices.give_way()
        log = partition.log
        path, size_bytes = str(log.health.path), log.size_bytes
        place = sizes.setdefault(path, [0, 0])
        place[0] += 1
        place[1] += size_bytes
        if wanted not in partition.topic.lower():
            continue
        rows.append(
            LogRow(
                size_bytes,
                partition.topic,
                partition.index,
                path,
                len(log.segments),
                log.log_start_offset,
                log.log_end_offset,
                log.recovery_point,
            )
        )
    failures = broker.log_manager.failures
    directories = [
        Directory(str(path), failures.get(path, ""), *sizes.get(str(path), (0, 0)))
        for path in broker.log_manager.directories
    ]
    return directories, rows


async def gather_segments(observed: Observed, topic: str, index: int) -> LogFacts:
    """The segments of a log in the broker's event loop; KafkaError."""
    broker, slices = observed.broker, Slices()
    log = broker.partition(topic, index).log
    segments = list(log.segments)
    rows = []
    for place, segment in enumerate(segments):
        await slices.give_way()
        is_active = place == len(segments) - 1
        rows.append(
            SegmentRow(
                segment.base_offset,
                log.log_end_offset if is_active else segments[place + 1].base_offset,
                segment.size_bytes,
                segment.created_ms,
                segment.max_timestamp,
                is_active,
            )
        )
    row = LogRow(
        log.size_bytes,
        topic,
        index,
        str(log.health.path),
        len(segments),
        log.log_start_offset,
        log.log_end_offset,
        log.recovery_point,
    )
    return LogFacts(row, rows)

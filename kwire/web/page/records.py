"""``/records``: browse a partition's records by offset or time, follow its end, search for a text.

Without an offset and a time the page shows the newest records. Times are UTC.
"""

from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlencode

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kwire.web.page import reading
from kwire.web.page.paging import whole
from kwire.web.page.reading import Found, Part, Row, Wanted
from kwire.web.page.record_text import FORMATS, Shown, shown
from kwire.web.page.site import PageError, Site

COUNTS = (1, 20, 50, 100)
PAGE_BYTES = 256 * 1024
MIN_RECORD_BYTES = 2 * 1024
MAX_SEARCH = 200


class RecordRow(NamedTuple):
    """A record as the page shows it."""

    row: Row
    key: Shown
    value: Shown
    headers: list[tuple[str, Shown]]


class Question(NamedTuple):
    """The query in the address; ``offset`` is None for the newest records."""

    topic: str
    partition: int
    offset: int | None
    most: int
    text: str
    form: str
    at: str


def routes(site: Site) -> list[Route]:
    """The routes of this view."""
    one_at_a_time = trio.Lock()

    async def records(request: Request) -> Response:
        async with one_at_a_time:
            question = _question(request)
            start, problem = await _start(site, question)
            topic, index, _, count, text, *_ = question
            most_bytes = max(MIN_RECORD_BYTES, PAGE_BYTES // count)
            wanted = Wanted(topic, index, start, count, text, most_bytes)
            found = await reading.read(site.broker_calls, wanted)
            return site.render(
                request,
                "records.html",
                title=f"Records of {question.topic}",
                question=question,
                found=found,
                rows=[_shown(row, question.form) for row in found.rows],
                problem=problem,
                counts=COUNTS,
                formats=FORMATS,
                links=_links(request, question, found),
            )

    return [site.route("/records", records)]


def _question(request: Request) -> Question:
    parameters = request.query_params
    count = whole(request, "count", 50)
    form = parameters.get("format", "auto")
    offset = parameters.get("offset", "").strip()
    return Question(
        parameters.get("topic", ""),
        whole(request, "partition", 0, 0, (1 << 31) - 1),
        whole(request, "offset", 0) if offset else None,
        count if count in COUNTS else 50,
        parameters.get("search", "")[:MAX_SEARCH],
        form if form in FORMATS else "auto",
        parameters.get("time", "").strip()[:40],
    )


async def _start(site: Site, question: Question) -> tuple[int, str]:
    """The offset to begin with, and a note about it; PageError, KafkaError."""
    if question.offset is not None:
        return question.offset, ""
    log_start, high_watermark = await site.broker_calls.run(
        reading.ends, question.topic, question.partition
    )
    if question.at:
        at_ms = time_ms(question.at)
        found = await site.broker_calls.run(
            reading.offset_at, question.topic, question.partition, at_ms
        )
        if found is not None:
            return found, ""
        return high_watermark, "All records are older than this time."
    if question.text:
        return log_start, ""
    return max(log_start, high_watermark - question.most), ""


def time_ms(text: str) -> int:
    """A time as a browser or a person writes it, in ms since the epoch; PageError."""
    if text.isdecimal() and len(text) <= 15:
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        example = "2026-01-31T18:30, or a number of ms since 1970"
        raise PageError(400, f"{text} is no time: write it as {example}") from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0, int(at.timestamp() * 1000))


def _shown(row: Row, form: str) -> RecordRow:
    headers = [(name, _part(value, "auto")) for name, value in row.headers]
    return RecordRow(row, _part(row.key, form), _part(row.value, form), headers)


def _part(part: Part | None, form: str) -> Shown:
    return shown(None, form, 0) if part is None else shown(part.content, form, part.size_bytes)


def _links(request: Request, question: Question, found: Found) -> dict[str, str]:
    """The addresses of the pages before and after this one; empty if there is none."""
    kept = {
        name: value
        for name, value in request.query_params.items()
        if name not in ("offset", "time")
    }

    def at(offset: int) -> str:
        return "?" + urlencode({**kept, "offset": str(offset)})

    links = {
        "first": at(found.log_start),
        "newest": "?" + urlencode(kept),
        "before": "",
        "after": "",
    }
    if found.first_offset > found.log_start:
        links["before"] = at(max(found.log_start, found.first_offset - question.most))
    if found.next_offset < found.high_watermark:
        links["after"] = at(found.next_offset)
    return links

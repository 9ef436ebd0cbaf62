"""``/records``: the records of a topic, of one partition or of all, from either end; a search.

Without an offset and a time the page shows the newest records first. A time of the form is UTC
unless it names its zone; the script sends the user's.
"""

from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlencode

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kwire.web.page import reading
from kwire.web.page.formats import time_text
from kwire.web.page.matching import MAX_TEXT, PLACES, Matcher, conditions_of
from kwire.web.page.paging import whole
from kwire.web.page.reading import Found, Part, Places, Row, Wanted
from kwire.web.page.record_text import FORMATS, BySchema, Shown, frame_of, shown
from kwire.web.page.schemas import SearchedValues
from kwire.web.page.site import PageError, Site

COUNTS = (1, 20, 50, 100)
ORDERS = {"newest": "newest first", "oldest": "oldest first"}
PAGE_BYTES = 256 * 1024
MIN_RECORD_BYTES = 2 * 1024
MAX_REST = 6000
MAX_PROBLEMS = 3
SEARCHED_AS_BYTES = "some were searched as bytes only, because their schema is missing"
WITH_SCHEMAS = ("auto", "confluent")
"""The formats in which a value is read by its schema."""


class RecordRow(NamedTuple):
    """A record as the page shows it."""

    row: Row
    key: Shown
    value: Shown
    headers: list[tuple[str, Shown]]


class Question(NamedTuple):
    """The query in the address; ``partition`` is None for all, ``offset`` for either end."""

    topic: str
    partition: int | None
    offset: int | None
    at: str
    order: str
    text: str
    place: str
    where: str
    most: int
    form: str
    rest: dict[int, int]

    @property
    def is_search(self) -> bool:
        """Whether only some records are wanted."""
        return bool(self.text or self.where.strip())

    @property
    def at_utc(self) -> str:
        """The time as the field of a form takes it, in UTC; PageError."""
        return time_text(time_ms(self.at))[:19].replace(" ", "T") if self.at else ""

    @property
    def is_detailed(self) -> bool:
        """Whether fields are used that are folded otherwise."""
        begins = self.offset is not None or bool(self.at) or self.order != "newest"
        return begins or self.form != "auto" or self.most not in (1, 50)

    @property
    def begins_at_an_end(self) -> bool:
        """Whether nothing says where to begin but the order."""
        return self.offset is None and not self.at and not self.rest


def routes(site: Site) -> list[Route]:
    """The routes of this view."""
    one_at_a_time = trio.Lock()

    async def records(request: Request) -> Response:
        async with one_at_a_time:
            question = _question(request)
            places = await site.broker_calls.run(
                reading.places_of, question.topic, question.partition, tuple(question.rest)
            )
            searched = _searched(site, question)
            wanted, problem = await _wanted(site, question, places, searched)
            found = await reading.read(site.broker_calls, wanted, places)
            if searched is not None and await searched.knows_more():
                found = await reading.read(site.broker_calls, wanted, places)
            rows, schema_problems = await _all_shown(site, found.rows, wanted, question.form)
            if searched is not None and searched.lacking:
                schema_problems.append(SEARCHED_AS_BYTES)
            return site.render(
                request,
                "records.html",
                title=f"Records of {question.topic}",
                question=question,
                found=found,
                places=found.places,
                rows=rows,
                problem=problem,
                schema_problems=schema_problems,
                counts=COUNTS,
                formats=FORMATS,
                orders=ORDERS,
                search_places=PLACES,
                links=_links(request, question, found),
            )

    return [site.route("/records", records)]


def _question(request: Request) -> Question:
    parameters = request.query_params
    count = whole(request, "count", 50)
    form = parameters.get("format", "auto")
    partition = parameters.get("partition", "").strip()
    offset = parameters.get("offset", "").strip()
    at = parameters.get("time", "").strip()[:40]
    default = "oldest" if offset or at else "newest"
    order = parameters.get("order", default)
    place = parameters.get("in", "anywhere")
    return Question(
        parameters.get("topic", ""),
        whole(request, "partition", 0, 0, (1 << 31) - 1) if partition else None,
        whole(request, "offset", 0) if offset and partition else None,
        "" if offset and partition else at,
        order if order in ORDERS else default,
        parameters.get("search", "")[:MAX_TEXT],
        place if place in PLACES else "anywhere",
        parameters.get("where", "")[:MAX_TEXT],
        count if count in COUNTS else 50,
        form if form in FORMATS else "auto",
        _rest(parameters.get("rest", "")),
    )


def _rest(text: str) -> dict[int, int]:
    """The offsets at which an earlier page stopped: ``partition:offset,partition:offset``."""
    rest = {}
    for part in text[:MAX_REST].split(",")[: reading.MAX_PARTITIONS]:
        index, _, offset = part.partition(":")
        if index.isdecimal() and offset.isdecimal() and len(part) < 32:
            rest[int(index)] = int(offset)
    return rest


def _searched(site: Site, question: Question) -> SearchedValues | None:
    """What decodes the values of a search, None if nothing does."""
    if site.schemas is None or not question.is_search or question.form not in WITH_SCHEMAS:
        return None
    return site.schemas.searched()


async def _wanted(
    site: Site, question: Question, places: Places, searched: SearchedValues | None
) -> tuple[Wanted, str]:
    """What to read, and a note about it; PageError, KafkaError."""
    is_newest_first = question.order == "newest"
    starts, problem = dict(question.rest), ""
    if not starts and question.offset is not None and question.partition is not None:
        starts = {question.partition: question.offset + is_newest_first}
    elif not starts and question.at:
        indexes = [place.partition for place in places.places]
        at_ms = time_ms(question.at)
        found = await site.broker_calls.run(reading.offsets_at, question.topic, indexes, at_ms)
        starts = {place.partition: found.get(place.partition, place.end) for place in places.places}
        if not found and not is_newest_first:
            problem = "All records are older than this time."
    keeps = None
    if question.is_search:
        conditions = conditions_of(question.where)
        text = question.text.lower().encode()
        keeps = Matcher(text, question.place, conditions, searched).keeps
    most_bytes = max(MIN_RECORD_BYTES, PAGE_BYTES // question.most)
    wanted = Wanted(
        question.topic,
        question.partition,
        is_newest_first,
        starts,
        question.most,
        keeps,
        most_bytes,
        keeps_framed=site.schemas is not None and question.form in WITH_SCHEMAS,
    )
    return wanted, problem


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


async def _all_shown(
    site: Site, rows: list[Row], wanted: Wanted, form: str
) -> tuple[list[RecordRow], list[str]]:
    """The rows as texts, and why the registry's schemas are missing, if they are."""
    if site.schemas is None or not wanted.keeps_framed:
        return [_shown(row, form) for row in rows], []
    parts = [part for row in rows for part in (row.key, row.value) if part is not None]
    values = await site.schemas.learn(_framed(parts, form))
    found = []
    for row in rows:
        found.append(_shown(row, form, values.decoded, wanted.most_bytes))
        await trio.lowlevel.checkpoint()  # lets the governor count, and other tasks run
    return found, list(values.problems)[:MAX_PROBLEMS]


def _framed(parts: list[Part], form: str) -> list[bytes]:
    """The whole contents that are in Confluent's framing."""
    contents = [part.content for part in parts if part.size_bytes == len(part.content)]
    return [content for content in contents if frame_of(content, form) is not None]


def _shown(
    row: Row, form: str, by_schema: BySchema | None = None, most_bytes: int = PAGE_BYTES
) -> RecordRow:
    headers = [(name, _part(value, "auto")) for name, value in row.headers]
    key = _part(row.key, form, by_schema, min(most_bytes, reading.MAX_KEY_BYTES))
    value = _part(row.value, form, by_schema, most_bytes)
    return RecordRow(row, key, value, headers)


def _part(
    part: Part | None, form: str, by_schema: BySchema | None = None, most_bytes: int = PAGE_BYTES
) -> Shown:
    if part is None:
        return shown(None, form, 0)
    return shown(part.content, form, part.size_bytes, by_schema, most_bytes)


def _links(request: Request, question: Question, found: Found) -> dict[str, str]:
    """The addresses of the pages before and after this one; empty if there is none."""
    moving = ("offset", "time", "rest", "order", "done")
    kept = {name: value for name, value in request.query_params.items() if name not in moving}

    def at(**changed: str) -> str:
        return "?" + urlencode({**kept, **changed})

    links = {"newest": at(), "oldest": at(order="oldest"), "before": "", "after": ""}
    if found.rest:
        rest = ",".join(f"{index}:{offset}" for index, offset in sorted(found.rest.items()))
        links["after"] = at(order=question.order, rest=rest)
    if found.rest and question.partition is not None and question.order == "oldest":
        links["after"] = at(offset=str(found.rest[question.partition]))
    if question.offset is not None and question.order == "oldest":
        offset = max(0, question.offset - question.most)
        links["before"] = at(offset=str(offset)) if question.offset > 0 else ""
    return links

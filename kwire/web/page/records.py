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
from kwire.web.page.record_text import FORMATS, Shown, shown
from kwire.web.page.site import PageError, Site

COUNTS = (1, 20, 50, 100)
ORDERS = {"newest": "newest first", "oldest": "oldest first"}
PAGE_BYTES = 256 * 1024
MIN_RECORD_BYTES = 2 * 1024
MAX_REST = 6000


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
            wanted, problem = await _wanted(site, question, places)
            found = await reading.read(site.broker_calls, wanted, places)
            return site.render(
                request,
                "records.html",
                title=f"Records of {question.topic}",
                question=question,
                found=found,
                places=found.places,
                rows=[_shown(row, question.form) for row in found.rows],
                problem=problem,
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


async def _wanted(site: Site, question: Question, places: Places) -> tuple[Wanted, str]:
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
        keeps = Matcher(question.text.lower().encode(), question.place, conditions).keeps
    most_bytes = max(MIN_RECORD_BYTES, PAGE_BYTES // question.most)
    wanted = Wanted(
        question.topic,
        question.partition,
        is_newest_first,
        starts,
        question.most,
        keeps,
        most_bytes,
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


def _shown(row: Row, form: str) -> RecordRow:
    headers = [(name, _part(value, "auto")) for name, value in row.headers]
    return RecordRow(row, _part(row.key, form), _part(row.value, form), headers)


def _part(part: Part | None, form: str) -> Shown:
    return shown(None, form, 0) if part is None else shown(part.content, form, part.size_bytes)


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

"""Long lists in pages, with a filter."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from starlette.requests import Request

PER_PAGE = 100
MAX_FILTER = 250

_T = TypeVar("_T")


class Page(NamedTuple, Generic[_T]):
    """The rows of one page, the ``number``-th from 1, of ``total`` rows that pass the filter."""

    rows: Sequence[_T]
    number: int
    total: int
    text: str
    before: str
    after: str

    @property
    def first(self) -> int:
        """The place of the first row, from 1; 0 without rows."""
        return (self.number - 1) * PER_PAGE + 1 if self.rows else 0

    @property
    def last(self) -> int:
        """The place of the last row."""
        return self.first + len(self.rows) - 1 if self.rows else 0


def whole(request: Request, name: str, default: int, least: int = 0, most: int = 1 << 62) -> int:
    """A number in the address, within bounds; ``default`` if it is no number."""
    text = request.query_params.get(name, "").strip()
    if not text.removeprefix("-").isdecimal() or len(text) > 20:
        return default
    return min(max(int(text), least), most)


def filter_text(request: Request) -> str:
    """The filter of a list, in small letters."""
    return request.query_params.get("filter", "").strip().lower()[:MAX_FILTER]


def span(request: Request, total: int, name: str = "page") -> tuple[int, range]:
    """The number of a page of ``total`` rows, and the places of its rows."""
    pages = max(1, -(-total // PER_PAGE))
    page = whole(request, name, 1, 1, pages)
    return page, range((page - 1) * PER_PAGE, min(page * PER_PAGE, total))


def page_of(request: Request, rows: Sequence[_T], total: int, name: str = "page") -> Page[_T]:
    """The page with these rows, which are already cut out of the list."""
    number, places = span(request, total, name)
    is_last = places.stop >= total
    return Page(
        rows,
        number,
        total,
        request.query_params.get("filter", "")[:MAX_FILTER],
        with_parameter(request, name, number - 1) if number > 1 else "",
        "" if is_last else with_parameter(request, name, number + 1),
    )


def paged(
    request: Request,
    rows: Sequence[_T],
    text_of: Callable[[_T], str] | None = None,
    name: str = "page",
) -> Page[_T]:
    """The page that ``name`` in the address names, of the rows whose text contains the filter."""
    wanted = filter_text(request)
    if wanted and text_of is not None:
        rows = [row for row in rows if wanted in text_of(row).lower()]
    _, places = span(request, len(rows), name)
    return page_of(request, rows[places.start : places.stop], len(rows), name)


def with_parameter(request: Request, name: str, value: object) -> str:
    """The address of the same page with one parameter changed."""
    parameters = {**request.query_params, name: str(value)}
    return f"{request.url.path}?{urlencode(parameters)}"

"""HTML from templates, the errors of pages, and the files that belong to them."""

import logging
import time
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from kwire import __version__
from kwire.budget.work import AnswerTooLarge
from kwire.errors import ErrorCode, KafkaError
from kwire.web.cross_loop_calls import BrokerCalls, NotServing
from kwire.web.page import formats
from kwire.web.page.sampler import Sampler
from kwire.web.page.schemas import Schemas
from kwire.web.page.sessions import Admin

log = logging.getLogger(__name__)

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

STATIC_TYPES = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}

VIEWS = (
    ("/", "Overview"),
    ("/topics", "Topics"),
    ("/groups", "Groups"),
    ("/producers", "Producers"),
    ("/brokers", "Cluster"),
    ("/logs", "Logs"),
    ("/access", "Access"),
)


_STATUS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.UNKNOWN_TOPIC_ID: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: 503,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: 503,
    ErrorCode.NOT_COORDINATOR: 503,
}


class PageError(Exception):
    """A page can't be shown; the text says why, and what to do."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Site:
    """The objects that a view needs: the broker, the sampler, the templates, the administrators.

    ``admin`` is None if the page is read-only, ``schemas`` is None without a schema registry.
    """

    def __init__(
        self,
        broker_calls: BrokerCalls,
        sampler: Sampler,
        admin: Admin | None,
        schemas: Schemas | None,
    ) -> None:
        self.broker_calls = broker_calls
        self.schemas = schemas
        self.sampler = sampler
        self.admin = admin
        self._environment = _environment()

    def render(self, request: Request, template: str, status: int = 200, **data: Any) -> Response:
        """The response with a template's HTML."""
        begin_s = time.thread_time()
        session = None if self.admin is None else self.admin.session_of(request)
        html = self._environment.get_template(template).render(
            data,
            views=VIEWS,
            path=request.url.path,
            query=request.query_params,
            version=__version__,
            has_admin=self.admin is not None,
            csrf=None if session is None else session.csrf,
            done=request.query_params.get("done", ""),
        )
        used_ms = (time.thread_time() - begin_s) * 1000
        return HTMLResponse(html, status, {"server-timing": f"render;dur={used_ms:.1f}"})

    def route(self, path: str, endpoint: Endpoint, methods: tuple[str, ...] = ("GET",)) -> Route:
        """A route whose errors are pages too."""

        async def answer(request: Request) -> Response:
            try:
                return await endpoint(request)
            except PageError as error:
                status, text = error.status, error.text
            except KafkaError as error:
                status, text = _STATUS.get(error.code, 409), _text_of(error)
            except AnswerTooLarge:
                status, text = 413, "there is too much to show; ask with the command line instead"
            except NotServing as error:
                status, text = 503, str(error)
            if path.endswith(".json"):
                return JSONResponse({"error": text}, status)
            return self.render(request, "error.html", status, text=text, title="Error")

        return Route(path, answer, methods=list(methods))

    def static(self) -> list[Route]:
        """The routes of the files beside the pages."""
        return [_static(name, content_type) for name, content_type in STATIC_TYPES.items()]


def _text_of(error: KafkaError) -> str:
    return f"{error.code.name}: {error.message}" if error.message else error.code.name


def _static(name: str, content_type: str) -> Route:
    content = (resources.files("kwire.web.page") / "static" / name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, headers={"content-type": f"{content_type}; charset=utf-8"})

    return Route(f"/static/{name}", answer)


class _Time(NamedTuple):
    """A time as templates show it: in UTC, which the script changes to the user's zone."""

    text: str

    def __html__(self) -> str:
        if len(self.text) != len("2026-01-31 18:30:00.000"):
            return self.text  # no time, or a number beyond all years
        return f'<time datetime="{self.text.replace(" ", "T")}Z">{self.text}</time>'


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kwire.web.page"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    for name in ("size", "short", "number", "rate", "byte_rate", "percent", "duration", "visible"):
        environment.filters[name] = getattr(formats, name)
    environment.filters["time"] = lambda at_ms: _Time(formats.time_text(at_ms))
    environment.filters["lines"] = formats.visible_lines
    environment.filters["ranges"] = formats.ranges
    environment.filters["quoted"] = lambda text: quote(str(text), safe="")
    return environment

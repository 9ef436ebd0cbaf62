"""The application of the HTTP port: the modules in ``PAGES`` and the page, behind the guard."""

from collections.abc import Callable, Iterable

from starlette.routing import Route, Router

from kwire.web import health, metrics
from kwire.web.cross_loop_calls import BrokerCalls
from kwire.web.guard import App, Guard
from kwire.web.page.sampler import Sampler
from kwire.web.page.schemas import Schemas
from kwire.web.page.views import routes as page_routes
from kwire.web.token import AdminToken
from kwire.web.turns import Turns

PAGES: tuple[Callable[[BrokerCalls], list[Route]], ...] = (health.routes, metrics.routes)
"""The ``routes`` of each module of pages."""


def application(
    broker_calls: BrokerCalls,
    sampler: Sampler,
    token: AdminToken | None,
    schemas: Schemas | None,
    allowed_hosts: Iterable[str],
) -> App:
    """The ASGI application that asks the broker at this broker_calls; read-only without a token."""
    routes = [route for one in PAGES for route in one(broker_calls)]
    routes += page_routes(broker_calls, sampler, token, schemas)
    return Guard(Turns(Router(routes, redirect_slashes=False)), allowed_hosts)

"""The application of the HTTP port: the modules in ``PAGES`` and the page, behind the guard."""

from collections.abc import Callable, Iterable

from starlette.routing import Route, Router

from kwire.web import health, metrics
from kwire.web.desk import Desk
from kwire.web.guard import App, Guard
from kwire.web.page.sampler import Sampler
from kwire.web.page.views import routes as page_routes
from kwire.web.token import AdminToken

PAGES: tuple[Callable[[Desk], list[Route]], ...] = (health.routes, metrics.routes)
"""The ``routes`` of each module of pages."""


def application(
    desk: Desk, sampler: Sampler, token: AdminToken | None, allowed_hosts: Iterable[str]
) -> App:
    """The ASGI application that asks the broker at this desk; read-only without a token."""
    routes = [route for one in PAGES for route in one(desk)]
    routes += page_routes(desk, sampler, token)
    return Guard(Router(routes, redirect_slashes=False), allowed_hosts)

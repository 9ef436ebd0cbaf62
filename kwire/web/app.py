"""The application of the HTTP port: the pages of all modules in ``PAGES`` behind the guard."""

from collections.abc import Callable, Iterable

from starlette.routing import Route, Router

from kwire.web import health, metrics
from kwire.web.desk import Desk
from kwire.web.guard import App, Guard

PAGES: tuple[Callable[[Desk], list[Route]], ...] = (health.routes, metrics.routes)
"""The ``routes`` of each module of pages."""


def application(desk: Desk, allowed_hosts: Iterable[str]) -> App:
    """The ASGI application that asks the broker at this desk."""
    routes = [route for page in PAGES for route in page(desk)]
    return Guard(Router(routes, redirect_slashes=False), allowed_hosts)

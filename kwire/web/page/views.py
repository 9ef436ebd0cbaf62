"""The routes of all views of the page, and those of the administrator if there is one."""

from starlette.routing import Route

from kwire.web.cross_loop_calls import BrokerCalls
from kwire.web.page import (
    access,
    admin,
    brokers,
    changes,
    groups,
    logs,
    overview,
    producers,
    records,
    topics,
)
from kwire.web.page.sampler import Sampler
from kwire.web.page.schemas import Schemas
from kwire.web.page.sessions import Admin
from kwire.web.page.site import Site
from kwire.web.token import AdminToken

VIEWS = (overview, topics, records, groups, producers, brokers, logs, access)


def routes(
    broker_calls: BrokerCalls, sampler: Sampler, token: AdminToken | None, schemas: Schemas | None
) -> list[Route]:
    """The routes of the page; without a token, no route changes anything."""
    sessions = None if token is None else Admin(token.text, broker_calls.steady_ms)
    site = Site(broker_calls, sampler, sessions, schemas)
    found = [route for view in VIEWS for route in view.routes(site)]
    if sessions is not None:
        found += [*admin.routes(site, sessions), *changes.routes(site, sessions)]
    return found + site.static()

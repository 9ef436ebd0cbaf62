"""``/brokers``: the brokers of the cluster, this broker's connections, features and settings."""

from collections import Counter
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kwire.budget.slices import Slices
from kwire.metadata.image import BrokerImage, ConfigResourceType
from kwire.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from kwire.web.cross_loop_calls import Observed
from kwire.web.page.asking import ask_broker
from kwire.web.page.paging import paged
from kwire.web.page.site import PageError, Site

SHOWN_CLIENTS = 20
DEFAULT_SOURCE = 5
SOURCES = {
    1: "this topic",
    2: "this broker, while it runs",
    3: "all brokers, while they run",
    4: "start of the broker",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "this group",
}
_DESCRIBE_VERSION = 4


class Facts(NamedTuple):
    """The data that the view shows."""

    node_id: int
    cluster_id: str
    brokers: list[BrokerImage]
    features: dict[str, int]
    listeners: dict[str, int]
    clients: list[tuple[str, int]]
    accepted: int
    refused: int
    malformed: int
    start_s: float


def routes(site: Site) -> list[Route]:
    """The routes of this view."""

    async def brokers(request: Request) -> Response:
        facts = await site.broker_calls.run(gather)
        configs = await site.broker_calls.run(
            describe_configs, ConfigResourceType.BROKER, str(facts.node_id)
        )
        return site.render(
            request,
            "brokers.html",
            title="Brokers",
            facts=facts,
            configs=paged(request, shown_configs(request, configs), lambda config: config.name),
            sources=SOURCES,
            shows_all=shows_all(request),
        )

    return [site.route("/brokers", brokers)]


async def gather(observed: Observed) -> Facts:
    """The facts, in the broker's event loop."""
    broker, slices = observed.broker, Slices()
    listeners = Counter({listener.name: 0 for listener in broker.config.listeners()})
    clients: Counter[str] = Counter()
    for connection in list(observed.poller.connections):
        await slices.give_way()
        listeners[connection.listener] += 1
        software = getattr(getattr(connection, "info", None), "software", None)
        if software is not None:
            clients[f"{software.name} {software.version}".strip() or "unnamed"] += 1
    image, counters = broker.image, broker.counters
    return Facts(
        broker.node_id,
        broker.cluster_id,
        list(image.brokers.values()),
        dict(image.features),
        dict(listeners),
        clients.most_common(SHOWN_CLIENTS),
        counters.accepted,
        counters.refused,
        counters.malformed,
        counters.start_s,
    )


async def describe_configs(
    observed: Observed, kind: ConfigResourceType, name: str
) -> list[DescribeConfigsResourceResult]:
    """The configs of a resource with their sources; PageError."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    answer: Any = await ask_broker(observed, request, _DESCRIBE_VERSION)
    [result] = answer.results
    if result.error_code:
        raise PageError(404, result.error_message or f"there is no {kind.name.lower()} {name}")
    configs: list[DescribeConfigsResourceResult] = result.configs
    return configs


def shows_all(request: Request) -> bool:
    """Whether settings with their default are shown too."""
    return request.query_params.get("settings") == "all"


def shown_configs(
    request: Request, configs: list[DescribeConfigsResourceResult]
) -> list[DescribeConfigsResourceResult]:
    """The settings to show by name; those with their default only if asked for, or filtered."""
    everything = shows_all(request) or bool(request.query_params.get("filter"))
    return sorted(
        (one for one in configs if everything or one.config_source != DEFAULT_SOURCE),
        key=lambda one: one.name,
    )

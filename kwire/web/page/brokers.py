"""``/brokers``: the cluster as its metadata has it, and this broker's connections and settings.

Every broker has the metadata of all, so the view is the same on each: the brokers with what they
lead and hold, the partitions that lack replicas in sync, and those that are being moved.
"""

from collections import Counter
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kwire.budget.slices import Slices
from kwire.metadata.image import (
    BrokerImage,
    ConfigResourceType,
    MetadataImage,
    PartitionImage,
)
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
SHOWN_PARTITIONS = 100
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


class BrokerRow(NamedTuple):
    """A broker; ``behind`` counts the replicas that it has and that aren't in sync."""

    broker: BrokerImage
    state: str
    leads: int
    preferred: int
    replicas: int
    behind: int


class PartitionRow(NamedTuple):
    """A partition that lacks replicas in sync, or that is being moved."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    missing: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Cluster(NamedTuple):
    """The brokers, and the partitions that need a look; of those only the first are here."""

    brokers: list[BrokerRow]
    partitions: int
    leaderless: int
    lacking: list[PartitionRow]
    lacking_count: int
    moving: list[PartitionRow]
    moving_count: int


class Facts(NamedTuple):
    """The data that the view shows."""

    node_id: int
    controller_id: int
    cluster_id: str
    cluster: Cluster
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
            title="Cluster",
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
        image.controller_id if image.controller_id >= 0 else broker.node_id,
        broker.cluster_id,
        await cluster_of(image, slices),
        dict(image.features),
        dict(listeners),
        clients.most_common(SHOWN_CLIENTS),
        counters.accepted,
        counters.refused,
        counters.malformed,
        counters.start_s,
    )


async def cluster_of(image: MetadataImage, slices: Slices) -> Cluster:
    """The cluster, by one look at each partition."""
    leads: Counter[int] = Counter()
    preferred: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    lacking: list[PartitionRow] = []
    moving: list[PartitionRow] = []
    count = lacking_count = moving_count = 0
    for topic in image.topics_by_name.values():
        for index, one in enumerate(topic.partitions):
            await slices.give_way()
            count += 1
            leads[one.leader] += 1
            preferred[one.replicas[0]] += 1
            replicas.update(one.replicas)
            is_moved, is_lacking = bool(one.adding or one.removing), one.leader < 0
            if len(one.isr) < len(one.replicas):
                missing = tuple(node for node in one.replicas if node not in one.isr)
                behind.update(missing)
                is_lacking = is_lacking or not frozenset(missing) <= frozenset(one.adding)
            lacking_count += is_lacking
            moving_count += is_moved
            if is_lacking and len(lacking) < SHOWN_PARTITIONS:
                lacking.append(_partition_row(topic.name, index, one))
            if is_moved and len(moving) < SHOWN_PARTITIONS:
                moving.append(_partition_row(topic.name, index, one))
    rows = [
        BrokerRow(
            broker, _state(broker), leads[node], preferred[node], replicas[node], behind[node]
        )
        for node, broker in sorted(image.brokers.items())
    ]
    return Cluster(rows, count, leads[-1], lacking, lacking_count, moving, moving_count)


def _partition_row(topic: str, index: int, image: PartitionImage) -> PartitionRow:
    missing = tuple(node for node in image.replicas if node not in image.isr)
    return PartitionRow(
        topic, index, image.leader, image.replicas, missing, image.adding, image.removing
    )


def _state(broker: BrokerImage) -> str:
    if broker.is_fenced:
        return "fenced"
    return "shutting down" if broker.is_shutting_down else "online"


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

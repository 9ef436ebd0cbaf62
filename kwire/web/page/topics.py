"""``/topics`` and ``/topics/NAME``: topics, their partitions, and their settings with sources."""

from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kwire.broker.partition import Partition
from kwire.budget.slices import Slices
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.types import uuid_to_str
from kwire.web.cross_loop_calls import Observed
from kwire.web.page.brokers import SOURCES, describe_configs, shown_configs, shows_all
from kwire.web.page.paging import PER_PAGE, page_of, paged, whole, with_parameter
from kwire.web.page.sampler import Rates, Sampler, TopicSample
from kwire.web.page.site import Site

ORDERS = ("name", "partitions", "size", "messages_in", "bytes_in", "bytes_out")


class TopicRow(NamedTuple):
    """A topic in the list."""

    name: str
    sample: TopicSample
    rates: Rates


class PartitionRow(NamedTuple):
    """A partition of a topic; the fields after ``leader_epoch`` are None if it isn't led here."""

    partition: int
    leader: int
    leader_epoch: int
    log_start: int | None = None
    high_watermark: int | None = None
    last_stable: int | None = None
    end_offset: int | None = None
    size_bytes: int | None = None
    segments: int | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    producers: int | None = None
    open_transactions: int | None = None


class TopicFacts(NamedTuple):
    """A topic and some of its partitions."""

    topic_id: str
    partitions: int
    rows: list[PartitionRow]


def routes(site: Site) -> list[Route]:
    """The routes of this view."""
    sampler = site.sampler

    async def topics(request: Request) -> Response:
        sample = await sampler.latest()
        order = request.query_params.get("order", "name")
        order = order if order in ORDERS else "name"
        rows = _sorted(sample.topics, sampler, order)
        return site.render(
            request,
            "topics.html",
            title="Topics",
            page=paged(request, rows, lambda row: row.name),
            order=order,
            address=lambda name: with_parameter(request, "order", name),
        )

    async def topic(request: Request) -> Response:
        name = request.path_params["name"]
        if "partition" in request.query_params:
            index = whole(request, "partition", 0)
            where = f"page={index // PER_PAGE + 1}#partition-{index}"
            return RedirectResponse(f"{request.url.path}?{where}", 303)
        first = (whole(request, "page", 1, 1) - 1) * PER_PAGE
        facts = await site.broker_calls.run(gather, name, first)
        configs = await site.broker_calls.run(describe_configs, ConfigResourceType.TOPIC, name)
        sample = await sampler.latest()
        return site.render(
            request,
            "topic.html",
            title=name,
            name=name,
            facts=facts,
            page=page_of(request, facts.rows, facts.partitions),
            sample=sample.topics.get(name),
            rates=sampler.rates(name),
            groups=[group for group in sample.groups if name in group.topics][:PER_PAGE],
            configs=shown_configs(request, configs),
            all_configs=sorted(config.name for config in configs),
            sources=SOURCES,
            shows_all=shows_all(request),
        )

    return [site.route("/topics", topics), site.route("/topics/{name}", topic)]


def is_internal(name: str) -> bool:
    """Whether a topic holds what brokers or tools keep for themselves, by Kafka's custom."""
    return name.startswith("__")


def _sorted(topics: dict[str, TopicSample], sampler: Sampler, order: str) -> list[TopicRow]:
    by_name = sorted(topics, key=lambda name: (is_internal(name), name))
    rows = [TopicRow(name, topics[name], sampler.rates(name)) for name in by_name]
    keys: dict[str, Any] = {
        "partitions": lambda row: -row.sample.partitions,
        "size": lambda row: -row.sample.size_bytes,
        "messages_in": lambda row: -row.rates.messages_in,
        "bytes_in": lambda row: -row.rates.bytes_in,
        "bytes_out": lambda row: -row.rates.bytes_out,
    }
    if order in keys:
        rows.sort(key=keys[order])
    return rows


async def gather(observed: Observed, name: str, first: int) -> TopicFacts:
    """A page of a topic's partitions from ``first`` on, in the broker's event loop; KafkaError."""
    broker, slices = observed.broker, Slices()
    topic = broker.image.topics_by_name.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    rows = []
    count = len(topic.partitions)
    first = min(first, max(0, count - 1) // PER_PAGE * PER_PAGE)
    for index in range(first, min(first + PER_PAGE, count)):
        await slices.give_way()
        image = topic.partitions[index]
        row = PartitionRow(index, broker.leader_of(topic, index), image.leader_epoch)
        partition = broker.partition_if_served(name, index)
        rows.append(row if partition is None else _full(row, partition))
    return TopicFacts(uuid_to_str(topic.topic_id), count, rows)


def _full(row: PartitionRow, partition: Partition) -> PartitionRow:
    log = partition.log
    return row._replace(
        log_start=log.log_start_offset,
        high_watermark=partition.high_watermark,
        last_stable=partition.last_stable_offset,
        end_offset=log.log_end_offset,
        size_bytes=log.size_bytes,
        segments=len(log.segments),
        bytes_in=partition.bytes_in,
        bytes_out=partition.bytes_out,
        producers=len(log.producers.producers),
        open_transactions=len(log.producers.open_transactions),
    )

"""``/``: the broker at a glance; the script keeps its charts fresh from ``/overview.json``."""

from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kwire.web.cross_loop_calls import Observed
from kwire.web.health import reasons_against
from kwire.web.page import formats
from kwire.web.page.charts import Chart, chart
from kwire.web.page.paging import whole
from kwire.web.page.sampler import Sample, Sampler
from kwire.web.page.site import Site

SHOWN = 8
SPANS = {900: "15 min", 3600: "1 h", 6 * 3600: "6 h", 24 * 3600: "24 h"}
DEFAULT_SPAN_S = 900

_CHARTS = (
    ("bytes_in", "Written", formats.byte_rate),
    ("bytes_out", "Read", formats.byte_rate),
    ("messages_in", "Records written", formats.rate),
    ("requests", "Requests", formats.rate),
    ("produce_s", "Produce, 99 % faster than", formats.duration),
    ("lag", "Lag of all groups", formats.number),
)


class Glance(NamedTuple):
    """The data of the overview besides the samples."""

    node_id: int
    cluster_id: str
    problems: list[str]
    addresses: list[str]


def routes(site: Site) -> list[Route]:
    """The routes of this view."""
    sampler = site.sampler

    async def overview(request: Request) -> Response:
        sample, span_s = await sampler.latest(), _span_s(request)
        glance = await site.broker_calls.run(gather)
        return site.render(
            request,
            "overview.html",
            title="Overview",
            glance=glance,
            values=_values(sample),
            charts=_charts(sampler, sample, span_s),
            spans=SPANS,
            span_s=span_s,
            busiest=_busiest(sampler, sample),
            behind=_behind(sample),
        )

    async def as_json(request: Request) -> Response:
        sample = await sampler.latest()
        charts = {one.name: one._asdict() for one in _charts(sampler, sample, _span_s(request))}
        values = _values(sample)
        shown = {name: formats.number(value) for name, value in values.items()}
        shown["size"] = formats.size(values["size"])
        return JSONResponse(
            {"at_ms": sample.at_ms, "values": values, "shown": shown, "charts": charts}
        )

    return [site.route("/", overview), site.route("/overview.json", as_json)]


async def gather(observed: Observed) -> Glance:
    """Gather this data in the broker's event loop."""
    problems = await reasons_against(observed)
    broker = observed.broker
    addresses = [
        f"{host}:{port}"
        for node in broker.image.brokers.values()
        for _, host, port in node.told_endpoints
    ]
    return Glance(broker.node_id, broker.cluster_id, problems, addresses)


def _values(sample: Sample) -> dict[str, int]:
    topics = sample.topics.values()
    return {
        "topics": len(sample.topics),
        "partitions": sum(topic.partitions for topic in topics),
        "offline": sum(topic.offline for topic in topics),
        "size": sum(topic.size_bytes for topic in topics),
        "groups": len(sample.groups),
        "connections": sample.totals.connections,
        "open_transactions": sample.totals.open_transactions,
        "errors": sample.totals.errors,
    }


def _span_s(request: Request) -> int:
    """How much time the charts show at the most."""
    span_s = whole(request, "span", DEFAULT_SPAN_S)
    return span_s if span_s in SPANS else DEFAULT_SPAN_S


def _charts(sampler: Sampler, sample: Sample, span_s: int) -> list[Chart]:
    points = sampler.points(sample.at_ms - span_s * 1000)
    return [
        chart(
            name,
            title,
            ((point.at_ms, getattr(point, name)) for point in points),
            show,
            sample.at_ms,
            span_s,
        )
        for name, title, show in _CHARTS
    ]


def _busiest(sampler: Sampler, sample: Sample) -> list[dict[str, Any]]:
    """The topics with traffic, the most of it first; without any, nothing."""
    rows: list[dict[str, Any]] = [
        {"name": name, "size": topic.size_bytes, "rates": sampler.rates(name)}
        for name, topic in sample.topics.items()
        if any(sampler.rates(name))
    ]
    rows.sort(key=lambda row: (-row["rates"].bytes_in - row["rates"].bytes_out, -row["size"]))
    return rows[:SHOWN]


def _behind(sample: Sample) -> list[Any]:
    """The groups with the largest lag."""
    return sorted(sample.groups, key=lambda group: (-(group.lag or 0), group.group_id))[:SHOWN]

"""The page shows the broker's data as HTML, in pages, without JavaScript, and nothing of clients'
markup comes through.
"""

import re
import tomllib
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from kwire.budget.slices import Slices
from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from kwire.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kwire.protocol.types import uuid_to_str
from kwire.spark.progress import Status
from kwire.web import page
from kwire.web.cross_loop_calls import NotServing, Observed
from kwire.web.page import paging, sampler
from kwire.web.page.brokers import cluster_of
from kwire.web.page.views import routes
from tests.support.in_process import RunningServer
from tests.web.conftest import http_server
from tests.web.page_data import MARKUP, join, produce

VIEWS = (
    "/",
    "/topics",
    "/topics/orders",
    "/topics/orders?settings=all",
    "/records?topic=orders",
    "/groups",
    "/producers",
    "/brokers",
    "/brokers?settings=all",
    "/access",
    "/logs",
    "/segments?topic=orders",
)


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page looks at the broker anew."""
    monkeypatch.setattr(sampler, "FRESH_S", 0.0)
    monkeypatch.setattr(sampler, "SPARE_WATCHED", 0)


async def html(http: httpx.AsyncClient, address: str, status: int = 200) -> str:
    """A page's text; fails if the status is another one, or if markup of clients is in it."""
    answer = await http.get(address)
    assert answer.status_code == status, answer.text
    assert "text/html" in answer.headers["content-type"]
    assert "<script>alert" not in answer.text
    assert "<img src=x" not in answer.text
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    return answer.text


async def test_every_view_shows_a_new_broker(tmp_path: Path) -> None:
    """A broker without a topic has pages without rows, and no page fails."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders")
        for address in VIEWS:
            text = await html(http, address)
            assert "<h1>" in text
            assert 'href="#content"' in text  # for the keyboard
            assert "style=" not in text  # the Content-Security-Policy would refuse it
        await client.aclose()


async def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    """Ids of groups and clients, keys, values, headers and metadata with markup are escaped."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders")
        await produce(
            client,
            "orders",
            [(MARKUP.encode(), MARKUP.encode(), ((MARKUP, MARKUP.encode()),))],
        )
        await client.commit(MARKUP, "orders", 0, metadata=MARKUP)
        member = await join(running, MARKUP + "2", MARKUP)
        for form in ("auto", "text", "json", "hex", "confluent"):
            text = await html(http, f"/records?topic=orders&format={form}&search=alert")
            assert "&lt;script&gt;alert" in text
        assert "&lt;script&gt;" in await html(http, "/groups")
        assert "&lt;script&gt;" in await html(http, "/")
        quoted = httpx.QueryParams({"id": MARKUP})
        assert "&lt;script&gt;" in await html(http, f"/group?{quoted}")
        quoted = httpx.QueryParams({"id": MARKUP + "2"})
        text = await html(http, f"/group?{quoted}")
        assert "joins (client &lt;script&gt;" in text
        for address in ("/topics/{}", "/topics?filter={}", "/records?topic={}", "/group?id={}"):
            await http.get(address.format(quoted))
        await html(http, f"/topics/{quote(MARKUP.replace('/', ''))}", 404)
        await html(http, f"/topics?filter={MARKUP}&order={MARKUP}")
        await html(http, f"/records?topic={MARKUP}", 404)
        await html(http, f"/records?topic=orders&where={quote(MARKUP)}", 400)
        await html(http, f"/records?topic=orders&where={quote('a = ' + MARKUP)}&in={MARKUP}")
        await html(
            http, f"/records?topic=orders&rest={MARKUP},0:1,x:-1,0:{'9' * 40}&order={MARKUP}"
        )
        await html(http, f"/?span={MARKUP}")
        await html(http, f"/?done={MARKUP}")
        await member.aclose()
        await client.aclose()


async def test_invisible_characters_are_shown(tmp_path: Path) -> None:
    """A text can't turn its direction round, or hide behind control characters."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders")
        await produce(client, "orders", [("a\u202eb".encode(), "c\u200bd".encode(), ())])
        text = await html(http, "/records?topic=orders")
        assert "\u202e" not in text
        assert "\u200b" not in text
        await client.aclose()


async def test_lists_have_pages_and_a_filter(tmp_path: Path) -> None:
    """However many partitions there are, a page has ``PER_PAGE`` rows."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("wide", 250)
        await client.topic("orders")
        first = await html(http, "/topics/wide")
        assert first.count('id="partition-') == paging.PER_PAGE
        assert "1 to 100 of 250 partitions" in first
        last = await html(http, "/topics/wide?page=3")
        assert last.count('id="partition-') == 50
        assert "201 to 250 of 250 partitions" in last
        assert "201 to 250 of 250 partitions" in await html(http, "/topics/wide?page=99999999")
        assert "1 to 100 of 250 partitions" in await html(http, "/topics/wide?page=-1")
        jump = await http.get("/topics/wide?partition=117")
        assert jump.headers["location"] == "/topics/wide?page=2#partition-117"
        assert "1 to 100 of 251 logs" in await html(http, "/logs")
        assert "1 to 1 of 1 logs" in await html(http, "/logs?filter=order")
        found = await html(http, "/topics?filter=WID")
        assert "1 to 1 of 1 topics" in found
        assert ">orders<" not in found
        await client.aclose()


async def test_a_pipeline_is_shown_with_its_group(tmp_path: Path) -> None:
    """As its note beside the offsets says; any client may write one, so it isn't trusted."""
    status = Status(state="running", records=1234, rate=99.6, small_files=7, files=9)
    status.dead_letters_by_reason = {f"value: {MARKUP}": 3}
    status.last_error = "KafkaError: away"
    status.last_error_at_s = 1.8e9
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders", partitions=2)
        await client.commit("shop", "orders", 0, metadata=status.note("the shop"))
        await client.commit("shop", "orders", 0, partition=1)
        text = await html(http, "/group?id=shop")
        for shown in (
            "Pipeline <bdi>the shop</bdi>",
            "<dt>State</dt><dd>running</dd>",
            "<dt>Records a second</dt><dd>100</dd>",
            "<dt>Records of the run</dt><dd>1,234</dd>",
            "<dt>Small files</dt><dd>7</dd>",
            "value: &lt;script&gt;",
            "<bdi>KafkaError: away</bdi>",
        ):
            assert shown in text
        for odd in (
            '{"kwire.pipeline": 5, "state": [1], "rate": "x", "reasons": {"a": true, "b": 1e999}}',
            '{"kwire.pipeline": {}, "records": NaN, "files": -1, "last_error_at_ms": 1e300}',
            '{"kwire.pipeline":' + "[" * 3000,
            '{"kwire.pipeline": "x"',
            r'{"kwire.pipeline": "x\ud800", "state": "\ud800", "reasons": {"\udc00": 1}}',
        ):
            await client.commit("odd", "orders", 0, metadata=odd)
            await html(http, "/group?id=odd")


async def test_a_group_page_has_members_lag_and_events(tmp_path: Path) -> None:
    """The events are those of ``kwire groups explain``."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders")
        await produce(client, "orders", [(None, b"v", ())] * 7)
        await client.commit("billing", "orders", 3, metadata=MARKUP)
        text = await html(http, "/group?id=billing")
        assert ">Empty<" in text
        assert '<dd data-value="lag">4</dd>' in text
        member = await join(running, "shipping", "truck")
        text = await html(http, "/group?id=shipping")
        assert "joins (client truck" in text
        assert "Why it rebalanced" in text
        fresh = (await http.get("/group.json?id=billing")).json()
        assert fresh["shown"]["lag"] == "4"
        assert fresh["charts"]["group_lag"]["now"] == "4"
        await html(http, "/group?id=nobody", 404)
        await member.aclose()
        await client.aclose()


async def test_topics_of_users_come_first(tmp_path: Path) -> None:
    """Internal ones are last, ids are as Kafka writes them, and what is idle isn't busy."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        topic_id = uuid_to_str(await client.topic("orders"))
        await client.topic("idle")
        await html(http, "/")
        await client.commit("billing", "orders", 0)
        await produce(client, "orders", [(None, b"v", ())])
        busiest = (await html(http, "/")).partition("Busiest topics</h2>")[2]
        assert "/topics/orders" in busiest
        assert "/topics/idle" not in busiest
        text = await html(http, "/topics")
        assert text.index(">orders<") < text.index(">__consumer_offsets<")
        assert f"id {topic_id}" in await html(http, "/topics/orders")
        await client.aclose()


async def test_the_cluster_shows_what_needs_a_look() -> None:
    """What each broker leads and holds, what isn't in sync, and what is on its way."""
    brokers = {node: BrokerImage(node, None, ()) for node in (1, 2)}
    brokers[3] = BrokerImage(3, "b", (), is_fenced=True)
    partitions = (
        PartitionImage(1, 0, (1, 2, 3), (1, 2, 3)),
        PartitionImage(1, 0, (1, 2, 3), (1, 2)),
        PartitionImage(2, 0, (1, 2, 3), (1, 2), adding=(3,), removing=(1,)),
        PartitionImage(-1, 0, (3,), (3,)),
    )
    topic = TopicImage("orders", bytes(16), partitions, 4)
    image = MetadataImage(brokers=brokers, topics_by_name={"orders": topic})
    cluster = await cluster_of(image, Slices())
    told = [(row.state, row.leads, row.replicas, row.behind) for row in cluster.brokers]
    assert told == [("online", 2, 3, 0), ("online", 1, 3, 0), ("fenced", 0, 4, 2)]
    assert (cluster.partitions, cluster.leaderless) == (4, 1)
    assert [(row.partition, row.missing) for row in cluster.lacking] == [(1, (3,)), (3, ())]
    assert [(row.partition, row.adding) for row in cluster.moving] == [(2, (3,))]


async def test_users_rights_and_quotas_are_shown(tmp_path: Path) -> None:
    """With the rights of the page's principal; their names are texts of strangers."""
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS;HTTP:anonymous",
    }
    async with http_server(tmp_path / "open", settings) as (running, http):
        client = await running.connect()
        acl = AclCreation(
            resource_type=2,
            resource_name="orders-",
            resource_pattern_type=4,
            principal=f"User:{MARKUP}",
            host="*",
            operation=3,
            permission_type=3,
        )
        made = await client.request(CreateAclsRequest(creations=[acl]), 3, CreateAclsResponse)
        assert not made.results[0].error_code
        quota = AlterClientQuotasRequestEntryData(
            entity=[EntityData(entity_type="user", entity_name=None)],
            ops=[OpData(key="producer_byte_rate", value=2e6)],
        )
        await client.request(
            AlterClientQuotasRequest(entries=[quota]), 1, AlterClientQuotasResponse
        )
        text = await html(http, "/access")
        for shown in ("User:&lt;script&gt;", ">READ<", "orders-*", "default", "2.0 MB/s"):
            assert shown in text
        assert "no ACL has this" in await html(http, "/access?filter=nobody")
        await client.aclose()
    settings["super.users"] = "User:ANONYMOUS"
    async with http_server(tmp_path / "closed", settings) as (_, http):
        text = await html(http, "/access")
        assert "The page may not see this (CLUSTER_AUTHORIZATION_FAILED)" in text


async def test_a_partition_without_an_offset_counts_for_the_lag(tmp_path: Path) -> None:
    """A member that has committed nothing has all the records of its partitions to read."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders", 2)
        await produce(client, "orders", [(None, b"v", ())] * 7)
        await client.commit("shipping", "orders", 0, partition=1)
        member = await join(running, "shipping", "truck", [("orders", [0, 1])])
        text = await html(http, "/group?id=shipping")
        assert '<dd data-value="lag">7</dd>' in text
        assert "1 to 2 of 2 partitions" in text
        assert "none yet" in text
        await member.aclose()
        invented = [("orders", [*range(10_000), -1]), ("nope", range(5))]
        member = await join(running, "inventive", "truck", invented)
        assert "1 to 2 of 2 partitions" in await html(http, "/group?id=inventive")
        await member.aclose()
        await client.aclose()


async def test_the_overview_has_numbers_for_its_script(tmp_path: Path) -> None:
    """The JSON has the same texts and paths that the page shows without the script."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders", 3)
        text = await html(http, "/")
        fresh = (await http.get("/overview.json")).json()
        assert fresh["values"]["topics"] == 1
        assert fresh["values"]["partitions"] == 3
        for name in fresh["charts"]:
            assert f'data-chart="{name}"' in text
        for name in fresh["shown"]:
            assert f'data-value="{name}"' in text
        await client.aclose()


async def test_topic_settings_name_their_sources(tmp_path: Path) -> None:
    """A setting shows its value, its source, and what it overrides."""
    async with http_server(tmp_path, {"log.retention.ms": "12345"}) as (running, http):
        client = await running.connect()
        await client.topic("orders")
        text = await html(http, "/topics/orders")
        assert "12345" in text
        assert "start of the broker" in text
        assert "log.retention.hours=168 (default)" in text
        await client.aclose()


@pytest.mark.parametrize(
    "address",
    ["/records", "/records?topic=nope", "/segments?topic=nope", "/topics/nope", "/group?id=x"],
)
async def test_what_is_not_there_is_an_error_page(tmp_path: Path, address: str) -> None:
    """The status is 404, and the page says what is missing."""
    async with http_server(tmp_path) as (_, http):
        assert 'role="alert"' in await html(http, address, 404)


async def test_static_files_are_served_with_their_types(tmp_path: Path) -> None:
    """Script and style come from the package, and from nowhere else."""
    async with http_server(tmp_path) as (_, http):
        for name, kind in (("page.css", "text/css"), ("page.js", "text/javascript")):
            answer = await http.get(f"/static/{name}")
            assert answer.headers["content-type"].startswith(kind)
            assert "://" not in answer.text
        assert (await http.get("/static/../page/site.py")).status_code == 404


async def test_a_broker_that_starts_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that can't be shown yet is 503."""
    async with http_server(tmp_path) as (running, http):
        assert running.server.http is not None

        def is_starting(_: Observed) -> None:
            raise NotServing(starting)

        starting = Observed().not_serving
        monkeypatch.setattr(Observed, "broker", property(is_starting))
        assert "the broker is starting" in await html(http, "/brokers", 503)


async def test_reading_changes_nothing(tmp_path: Path) -> None:
    """Without kwire.http.admin.enable there is no address that takes a POST."""

    async def posts(running: RunningServer, http: httpx.AsyncClient) -> set[int]:
        paths = {route.path for route in routes(None, None, None, None)}  # type: ignore[arg-type]
        paths |= {"/admin/login", "/admin/topics/create", "/admin/topics/delete"}
        return {(await http.post(path.replace("{name}", "x"))).status_code for path in paths}

    async with http_server(tmp_path) as (running, http):
        assert await posts(running, http) <= {404, 405}
        assert not running.broker.image.topics_by_name


def test_every_file_of_the_page_is_in_the_wheel() -> None:
    """A wheel has only the files that pyproject.toml names, beside Python's own."""
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    globs = project["tool"]["setuptools"]["package-data"]["kwire"]
    packed = {path for glob in globs for path in (root / "kwire").glob(glob)}
    there = {
        path
        for path in (root / "kwire" / "web").rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert there <= packed
    assert len(there) > 10


def _light(color: str) -> float:
    """The relative luminance of ``#rrggbb`` or ``#rgb`` (WCAG 2)."""
    digits = color.lstrip("#")
    if len(digits) == 3:
        digits = "".join(digit * 2 for digit in digits)
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_their_ground(scheme: str) -> None:
    """WCAG 2 asks for a contrast of 4.5 to 1, in both schemes."""
    css = (Path(page.__file__).parent / "static" / "page.css").read_text(encoding="utf-8")
    light, dark = css.split("@media (prefers-color-scheme: dark)")[:2]
    pairs = re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6});", light if scheme == "light" else dark)
    colors = dict(pairs)
    for text, grounds in {
        "text": ("ground", "panel", "hover"),
        "dim": ("ground", "panel", "hover"),
        "accent": ("ground", "panel", "hover"),
        "ground": ("accent", "bad"),  # of buttons
        "good": ("good-ground",),
        "bad": ("bad-ground", "panel"),
        "warn": ("warn-ground",),
    }.items():
        for ground in grounds:
            one, other = sorted((_light(colors[text]), _light(colors[ground])))
            contrast = (other + 0.05) / (one + 0.05)
            assert contrast >= 4.5, f"{text} on {ground}: {contrast:.1f}"


@pytest.mark.parametrize("number", ["--1", "-", "-1", "1e9", "٣", "9" * 40])
async def test_any_number_of_a_page_has_an_answer(tmp_path: Path, number: str) -> None:
    """What is no number is the first page."""
    async with http_server(tmp_path) as (_, http):
        assert (await http.get("/topics", params={"page": number})).status_code == 200

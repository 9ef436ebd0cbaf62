"""The page in a browser: what it shows, who can use it, and that nothing of clients' markup runs.

Each view is tested with real data on a small broker and on one with more than 10,000 partitions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import product
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, Page, Route, expect

from browser_tests import data
from browser_tests.surroundings import TOKEN, Site
from tests.support.topics import create_topics

HOSTILE_GROUP = f"/group?id={quote(data.HOSTILE_GROUP, safe='')}"
VIEWS = {
    "overview": ("/", "Busiest topics"),
    "topics": ("/topics", "audit"),
    "topics by size": ("/topics?order=size", "clicks"),
    "topic": ("/topics/orders", "86400000"),
    "topic with one partition": ("/topics/payments", "1 to 1 of 1 partitions"),
    "all settings of a topic": ("/topics/orders?settings=all", "cleanup.policy"),
    "records": ("/records?topic=orders&partition=0", "customer-"),
    "records in a frame": ("/records?topic=payments", "schema 42"),
    "records by their schema": ("/records?topic=shipments", "Avro shop.Shipment, schema 1"),
    "one record by its schema": ("/records?topic=shipments&partition=0&offset=3&count=1", "Porto"),
    "records found by their schema": ("/records?topic=shipments&where=city = Porto", "6 found in"),
    "records with markup": ("/records?topic=hostile", "<script>"),
    "records of all partitions": ("/records?topic=orders", "all 3 partitions"),
    "records by a field": ("/records?topic=orders&where=city = Porto", "Porto"),
    "records where nothing is": ("/records?topic=orders&where=city = Oslo", "nothing found"),
    "charts of a day": ("/?span=86400", "24 h"),
    "records found": ("/records?topic=clicks&search=products/17", "products/17"),
    "groups": ("/groups", "billing"),
    "group": ("/group?id=billing", "a rebalance begins"),
    "consumer group": ("/group?id=clickstream", "clicks"),
    "group with markup": (HOSTILE_GROUP, "<script>"),
    "queue": ("/group?id=packers", "did not accept"),
    "producers": ("/producers", "ledger <script>"),
    "cluster": ("/brokers", "Under-replicated"),
    "this broker": ("/brokers", "transaction.version"),
    "access": ("/access", "no authorizer"),
    "logs": ("/logs", "Data directories"),
    "segments": ("/segments?topic=orders", "active"),
}
WIDE = {
    "records of all of a wide topic": ("/records?topic=wide", "all 5,000 partitions"),
    "a search in a wide topic": ("/records?topic=wide&search=record 1", "found in"),
    "the cluster of a wide topic": ("/brokers", "Under-replicated"),
    "wide topic": ("/topics/wide", "1 to 100 of 5,000 partitions"),
    "end of a wide topic": ("/topics/wide?page=50", "4,901 to 5,000 of 5,000 partitions"),
    "records of a wide topic": ("/records?topic=wide&partition=4999", "record 4999"),
    "topics with a filter": ("/topics?filter=many-49", "1 to 10 of 10 topics"),
    "end of the logs": ("/logs?page=101", "of 10,"),
}
CASES = [
    *(("small", *VIEWS[name]) for name in VIEWS),
    *(("large", *one) for one in (VIEWS | WIDE).values()),
]


BAD = ("error", "warning")
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const parts = [...canvas.getImageData(0, 0, 1, 1).data];
    const linear = parts.slice(0, 3).map((one) =>
      (one /= 255) <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    const y = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    return { opaque: parts[3] === 255, y };
  };
  const ground = (place) => {
    const found = light(getComputedStyle(place).backgroundColor);
    return found.opaque || !place.parentElement ? found : ground(place.parentElement);
  };
  const bad = [];
  for (const place of document.querySelectorAll("main *, header *, footer *")) {
    const hasText = [...place.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!hasText || !place.offsetParent) continue;
    const [one, other] = [light(getComputedStyle(place).color).y, ground(place).y];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) bad.push(`${place.outerHTML.slice(0, 80)} ${contrast.toFixed(1)}`);
  }
  return bad.slice(0, 5);
}"""
"""The texts with less contrast than WCAG's level AA asks for."""


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Site:
    """The broker that a case names."""
    found: Site = request.getfixturevalue(request.param)
    return found


@contextmanager
def opened(browser: Browser, **options: Any) -> Iterator[Page]:
    """A page of a browser without cookies. Fails at the end if the page complained."""
    complaints: list[str] = []
    with browser.new_context(**options) as context:
        page = context.new_page()
        page.on("console", lambda said: said.type in BAD and complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        hosts: set[str] = set()
        page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname or ""))
        yield page
        assert not complaints
        assert hosts <= {"127.0.0.1"}, "the page asks another host"


@pytest.mark.parametrize(("site", "address", "text"), CASES, indirect=["site"])
def test_each_view(browser: Browser, site: Site, address: str, text: str) -> None:
    """It shows its data, in both sizes and both schemes.

    The page as a whole doesn't scroll sideways, and texts stand out from their ground.
    """
    with opened(browser, viewport={"width": 375, "height": 780}) as page:
        answer = page.goto(site.url + address)
        assert answer is not None
        assert answer.status == 200
        assert text in page.inner_text("main")
        assert page.title() != "owned"
        assert page.locator("main script, main img").count() == 0
        assert page.locator("main tbody tr").count() <= 400
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        for width, scheme in product((375, 1200), ("light", "dark")):
            page.set_viewport_size({"width": width, "height": 780})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(wide) == 0
            assert page.evaluate(CONTRAST) == [], f"hard to read at {width} pixels, {scheme}"
        assert page.locator("h1").count() == 1
        unnamed = "input:not([type=hidden]), select, textarea"
        for field in page.locator(unnamed).all():
            assert field.evaluate("field => field.labels.length"), "a field without a label"
        for table in page.locator("table:has(thead)").all():
            assert table.locator("thead th:not([scope=col])").count() == 0


@pytest.mark.parametrize(("address", "text"), VIEWS.values(), ids=list(VIEWS))
def test_each_view_without_javascript(
    browser: Browser, small: Site, address: str, text: str
) -> None:
    """The script only keeps a page fresh."""
    with opened(browser, java_script_enabled=False) as page:
        page.goto(small.url + address)
        expect(page.locator("main")).to_contain_text(text)


def test_the_overview_stays_fresh(browser: Browser, small: Site) -> None:
    """Numbers and charts follow the broker without a reload."""
    with opened(browser) as page:
        page.goto(small.url)
        topics = page.locator('[data-value="topics"]')
        before = int(topics.inner_text())
        create_topics(small.bootstrap, "one-more")
        expect(topics).to_have_text(str(before + 1), timeout=30_000)
        data.load(small.bootstrap, 0.5)
        expect(page.locator('[data-chart="bytes_in"] .line')).to_have_attribute(
            "d", data.A_PATH, timeout=30_000
        )


def test_the_newest_records_are_followed(browser: Browser, small: Site) -> None:
    """With the box ticked, a new record appears by itself."""
    with opened(browser) as page:
        page.goto(f"{small.url}/records?topic=audit")
        page.get_by_label("follow").check()
        producer = Producer({"bootstrap.servers": small.bootstrap})
        producer.produce("audit", value="just now")
        producer.flush(30)
        expect(page.locator("[data-live]")).to_contain_text("just now", timeout=30_000)


def test_values_whose_schemas_come_later(browser: Browser, small: Site) -> None:
    """The page shows bytes at once, and asks again by itself."""
    with opened(browser) as page:
        asked: list[str] = []

        def answer(route: Route) -> None:
            asked.append(route.request.url)
            response = route.fetch()
            text, late = response.text(), "<div data-live data-again><p>the registry is late</p>"
            body = text.replace("<div data-live>", late) if len(asked) == 1 else text
            route.fulfill(response=response, body=body)

        page.route("**/records?*", answer)
        page.goto(f"{small.url}/records?topic=shipments")
        expect(page.get_by_text("the registry is late")).to_be_visible()
        expect(page.get_by_text("the registry is late")).to_have_count(0, timeout=30_000)
        expect(page.locator("tbody tr")).to_have_count(30)
        assert len(asked) == 2


def test_a_queue_is_followed(browser: Browser, small: Site) -> None:
    """Who has which records for how long, and what waits, without a reload; unticked, it rests."""
    with opened(browser) as page:
        page.goto(f"{small.url}/group?id={data.QUEUE}")
        waiting = page.locator(".figures > div", has_text="Waiting").locator("dd")
        before = int(waiting.inner_text())
        again = page.locator("[aria-label='Records in flight'] tr", has_text="acquired")
        expect(again.filter(has_text="packer-1").first).to_be_visible()
        expect(page.locator("[aria-label='Members'] tbody tr")).to_have_count(2)
        expect(page.get_by_label("follow")).to_be_checked()
        producer = Producer({"bootstrap.servers": small.bootstrap})
        producer.produce("parcels", value="one more")
        producer.flush(30)
        expect(waiting).to_have_text(str(before + 1), timeout=30_000)
        page.get_by_role("link", name="dlq.parcels").click()
        expect(page.locator("h1")).to_contain_text("dlq.parcels")


def test_a_page_is_used_without_a_mouse(browser: Browser, small: Site) -> None:
    """The first key leads past the navigation, and what has the focus can be seen."""
    with opened(browser) as page:
        page.goto(f"{small.url}/topics")
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.get_by_label("Name contains")).to_be_focused()
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) == "solid"
        page.keyboard.type("orders")
        page.keyboard.press("Enter")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.get_by_role("link", name="orders", exact=True).press("Enter")
        expect(page.locator("h1")).to_contain_text("orders")


def test_times_are_in_the_zone_of_the_reader(browser: Browser, small: Site) -> None:
    """Those that are shown, and those of the form; without the script they are UTC."""
    address = f"{small.url}/records?topic=orders"
    with opened(browser, java_script_enabled=False) as page:
        page.goto(address)
        utc = datetime.fromisoformat(page.locator("tbody time").first.inner_text())
        expect(page.locator("footer")).to_contain_text("times are UTC")
    with opened(browser, timezone_id="Asia/Kolkata") as page:
        page.goto(address)
        time = page.locator("tbody time").first
        assert datetime.fromisoformat(time.inner_text()) == utc + timedelta(hours=5.5)
        assert time.get_attribute("title") == f"{utc.isoformat(' ', 'milliseconds')} UTC"
        expect(page.locator("footer")).to_contain_text("times are Asia/")
        page.get_by_text("Where to begin").click()
        begin = (utc + timedelta(hours=5.5, minutes=1)).isoformat(timespec="seconds")
        page.get_by_label("From time").fill(begin)
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_label("From time")).to_have_value(begin)
        expect(page.locator("tbody tr")).to_have_count(50)


def test_records_lead_on_to_older_ones(browser: Browser, small: Site) -> None:
    """Of all partitions, without a gap or a record that is shown twice."""
    with opened(browser) as page:
        page.goto(f"{small.url}/records?topic=clicks&count=100")
        seen: set[str] = set()
        for _ in range(3):
            rows = page.locator("tbody tr").all()
            seen.update(row.inner_text() for row in rows[:5])
            page.get_by_role("link", name="older").click()
        assert len(seen) == 15


def test_what_matters_is_on_the_screen_of_a_phone(browser: Browser, small: Site) -> None:
    """The value of a record, its partition's link, and every view's name."""
    with opened(browser, viewport={"width": 375, "height": 780}) as page:
        page.goto(f"{small.url}/records?topic=orders&partition=0")
        places = [page.locator("tbody .value").first, page.locator("tbody .key").first]
        places += page.locator(".top nav a").all()
        page_of_topic = page.context.new_page()
        page_of_topic.goto(f"{small.url}/topics/orders")
        places.append(page_of_topic.locator("tbody a", has_text="records").first)
        for place in places:
            box = place.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 375


def test_dark_and_light(browser: Browser, small: Site) -> None:
    """The page follows the system."""
    grounds = []
    for scheme in ("light", "dark"):
        with opened(browser, color_scheme=scheme) as page:
            page.goto(small.url)
            grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] != grounds[1]


def test_an_administrator_changes_a_topic(browser: Browser, small: Site) -> None:
    """A browser sends what the guard against forgery asks for, and scripts don't see the cookie."""
    with opened(browser) as page:
        page.goto(f"{small.url}/topics")
        assert page.locator("form[method=post]").count() == 0
        page.get_by_role("link", name="Log in").click()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("main")).to_contain_text("You are logged in.")
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("link", name="Topics").first.click()
        page.get_by_text("Create a topic").click()
        page.get_by_label("Name", exact=True).fill("made-here")
        page.get_by_label("Partitions", exact=True).fill("2")
        page.get_by_role("button", name="Create").click()
        expect(page.locator("h1")).to_contain_text("made-here")
        page.locator("form[action$='topics/set'] select").select_option("retention.ms")
        page.get_by_label("Value", exact=True).fill("60000")
        page.get_by_role("button", name="Set", exact=True).click()
        expect(page.locator("main")).to_contain_text("The setting is changed.")
        page.get_by_role("link", name="Records", exact=True).click()
        page.get_by_text("Write a record").click()
        page.get_by_label("Value", exact=True).fill(data.MARKUP)
        page.get_by_label("Headers, one per line").fill(f"{data.MARKUP}=1")
        page.get_by_role("button", name="Write").click()
        expect(page.locator("main")).to_contain_text("The record is written.")
        expect(page.locator("pre").first).to_have_text(data.MARKUP)
        page.goto(f"{small.url}/topics/made-here")
        page.locator("form[action$='topics/delete'] [name=confirm]").fill("made-here")
        page.get_by_role("button", name="Delete the topic").click()
        expect(page.locator("main")).to_contain_text("The topic is deleted.")
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("link", name="Log in")).to_be_visible()

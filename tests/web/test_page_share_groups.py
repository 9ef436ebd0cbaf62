"""A share group's page is a queue: what waits, who has which records, what came again; a streams
group's page has its topology and its tasks.
"""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.explain_share_group import (
    ExplainShareGroupRequest,
    ExplainShareGroupResponse,
)
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)
from kwire.web.page import ends, sampler
from kwire.web.page.ends import OtherLeaders
from kwire.web.page.formats import NOTHING
from tests.support.asking import error_of
from tests.support.share_group import join_share_group
from tests.support.share_member import ACCEPT, REJECT, RELEASE, configure
from tests.web.conftest import http_server
from tests.web.page_data import MARKUP


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page looks at the broker anew."""
    monkeypatch.setattr(sampler, "FRESH_S", 0.0)
    monkeypatch.setattr(sampler, "SPARE_WATCHED", 0)


def figures(text: str) -> dict[str, str]:
    """The large numbers of a page, by name."""
    return dict(re.findall(r"<dt>([^<]*)</dt><dd[^>]*>([^<]*)</dd>", text))


def rows(text: str, label: str) -> list[list[str]]:
    """The texts in the cells of a table's rows."""
    table = text.partition(f'aria-label="{label}"')[2].partition("</table>")[0]
    found = []
    for row in re.findall(r"<tr>(.*?)</tr>", table.partition("<tbody>")[2], re.DOTALL):
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        found.append([" ".join(re.sub("<[^>]*>", "", cell).split()) for cell in cells])
    return found


async def page_of(http: httpx.AsyncClient, group: str) -> str:
    """A group's page; no markup of clients is in it."""
    answer = await http.get("/group", params={"id": group})
    assert answer.status_code == 200, answer.text
    assert "<script>alert" not in answer.text
    assert "<img src=x" not in answer.text
    return answer.text


async def test_a_queue_shows_what_waits_and_who_has_which_records(tmp_path: Path) -> None:
    """As ``kwire share describe --records`` and ``kwire groups explain`` tell it."""
    async with http_server(tmp_path) as (running, http):
        await running.topic("jobs", partitions=2)
        member = await join_share_group(running, "workers", "jobs")
        await running.produce("jobs", *(b"%d" % number for number in range(8)))
        await member.fetch(max_records=4, mode=1)
        await member.acknowledge({0: [(0, 0, [ACCEPT]), (1, 1, [RELEASE]), (2, 2, [REJECT])]})
        text = await page_of(http, "workers")
        assert figures(text) == {
            "State": "Stable",
            "Members": "1",
            "Lag": "6",
            "Waiting": "5",
            "In flight": "1",
            "Redelivered": "1",
            "Dead": "1",
        }
        first, second = rows(text, "Partitions")
        assert first[:8] == ["jobs", "0", "1", "5", "1", "1", "1", "6"]
        assert re.fullmatch(r"raw 1 for \d.*", first[8])
        assert second == ["jobs", "1", "0", "0", "0", "0", "0", "0", ""]
        waiting, dead, held = rows(text, "Records in flight")
        assert waiting == ["jobs", "0", "1", "", NOTHING, "1", "available", NOTHING]
        assert dead == ["jobs", "0", "2", "", NOTHING, "1", "archived", NOTHING]
        assert held[:4] == ["jobs", "0", "3", "raw"]
        assert held[5:7] == ["1", "acquired"]
        [worker] = rows(text, "Members")
        assert worker[:5] == ["raw", "127.0.0.1", "worker-1", worker[3], "1"]
        assert worker[6] == "jobs 0-1"
        assert "member worker-1 did not accept offset 2: archived" in text
        assert "has no topic for dead letters" in text
        listed = (await http.get("/groups")).text
        [listed_row] = rows(listed, "Groups")
        assert listed_row == ["workers", "share", "Stable", "1", "6", "jobs"]
        await member.leave()
        text = await page_of(http, "workers")
        assert figures(text)["Members"] == "0"
        assert rows(text, "Records in flight") == [["none"]]
        assert rows(text, "Partitions")[0][:4] == ["jobs", "0", "1", "6"]


async def test_a_queue_without_a_start_and_with_markup(tmp_path: Path) -> None:
    """What no partition knows is no number; names of clients stay texts."""
    async with http_server(tmp_path) as (running, http):
        await running.topic("jobs")
        await running.topic("dlq.jobs")
        member = await join_share_group(running, MARKUP, "jobs", "<img src=x>")
        name = "errors.deadletterqueue.topic.name"
        assert not await configure(running, MARKUP, name, "dlq.jobs")
        await running.produce("jobs", b"one")
        await member.fetch()
        text = await page_of(http, MARKUP)
        assert "&lt;script&gt;" in text
        assert 'Dead letters are in <a href="/topics/dlq.jobs">' in text
        assert '<input type="checkbox" data-follow checked>' in text
        await member.client.aclose()


async def test_a_streams_group_shows_its_tasks(tmp_path: Path) -> None:
    """And the partitions that they read count for its lag."""
    settings = {
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.assignment.interval.ms": "0",
    }
    async with http_server(tmp_path, settings) as (running, http):
        await running.topic("orders", partitions=2)
        await running.produce("orders", b"one", b"two")
        await error_of(running.find_coordinator("app"))
        part = Subtopology(
            subtopology_id="0",
            source_topics=["orders"],
            state_changelog_topics=[TopicInfo(name="app-store-changelog")],
        )
        none: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        request = StreamsGroupHeartbeatRequest(
            group_id="app",
            member_id="one",
            rebalance_timeout_ms=1000,
            topology=Topology(subtopologies=[part]),
            process_id="one",
            **none,
        )
        answer = await running.request(request, 1, StreamsGroupHeartbeatResponse)
        request = StreamsGroupHeartbeatRequest(
            group_id="app", member_id="one", member_epoch=answer.member_epoch, **none
        )
        assert not (await running.request(request, 1, StreamsGroupHeartbeatResponse)).error_code
        text = await page_of(http, "app")
        assert "<small>streams · sticky · epoch" in text
        assert rows(text, "Topology") == [["0", "orders", "", "app-store-changelog"]]
        [member] = rows(text, "Members")
        assert member[-1] == "0 0-1"
        offsets = rows(text, "Offsets")
        assert [row[:5] for row in offsets] == [
            ["orders", "0", "none yet", "2", "2"],
            ["orders", "1", "none yet", "0", "0"],
        ]


async def test_a_broker_that_is_silent_is_not_asked_for_a_while() -> None:
    """So a page waits for it once."""
    asked: list[int] = []

    async def ask(node_id: int, *_: object, **__: object) -> ExplainShareGroupResponse:
        asked.append(node_id)
        if node_id == 3:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
        return ExplainShareGroupResponse(has_more=True)

    now = SimpleNamespace(ms=0)
    broker: Any = SimpleNamespace(peers=SimpleNamespace(ask=ask))
    broker.clock = SimpleNamespace(steady_ms=lambda: now.ms)
    leaders = OtherLeaders()

    async def answer(node_id: int) -> ExplainShareGroupResponse | None:
        request = ExplainShareGroupRequest(group_id="workers")
        return await leaders.ask(broker, node_id, request, ExplainShareGroupResponse, version=0)

    assert await answer(2) == ExplainShareGroupResponse(has_more=True)
    assert await answer(3) is None
    assert await answer(3) is None
    assert asked == [2, 3]
    now.ms = ends.SILENT_MS
    assert await answer(3) is None
    assert asked == [2, 3, 3]

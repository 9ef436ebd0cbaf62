"""/metrics of share groups: what became of the records, what is in flight, and dead letters."""

from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kwire.testing.waiting import until
from tests.support.share_group import join_share_group
from tests.support.share_member import ACCEPT, REJECT, RELEASE, RENEW, configure
from tests.web.conftest import http_server

SETTINGS = {"errors.deadletterqueue.auto.create.topics.enable": "true"}
GROUPS = "kafka_server_sharegroupmetrics_"
PARTITIONS = "kafka_server_sharepartitionmetrics_"
REQUESTS = "kafka_server_brokertopicmetrics_"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gather the metrics anew for each question."""
    monkeypatch.setattr("kwire.web.metrics.FRESH_S", 0.0)


async def read(http: httpx.AsyncClient, label: str, **labels: str) -> dict[tuple[str, str], float]:
    """The samples that have these labels, by their name and by the label that they have besides."""
    found = {}
    for family in text_string_to_metric_families((await http.get("/metrics")).text):
        for sample in family.samples:
            if labels.items() <= sample.labels.items():
                found[sample.name, sample.labels.get(label, "")] = sample.value
    return found


async def test_what_became_of_records(tmp_path: Path) -> None:
    """Each acknowledgement, each lock that ended, and each dead letter is counted."""
    async with http_server(tmp_path, SETTINGS) as (running, http):
        await running.topic("jobs")
        member = await join_share_group(running, "workers", "jobs")
        name = "errors.deadletterqueue.topic.name"
        assert not await configure(running, "workers", name, "dlq.jobs")
        await running.produce("jobs", *(b"%d" % number for number in range(8)))
        await member.fetch(max_records=6, mode=1)
        answer = await member.acknowledge(
            {0: [(0, 1, [ACCEPT]), (2, 4, [RELEASE, REJECT, RENEW])]}, renews=True
        )
        assert not answer.error_code
        manager = running.broker.share_partitions
        await until(lambda: manager.dead_letters.written == 1)
        found = await read(http, "acktype")
        types = {kind: found[f"{GROUPS}recordacknowledgements_total", kind] for kind in KINDS}
        assert types == {"Accept": 2, "Release": 1, "Reject": 1, "Renew": 1}
        assert found[f"{REQUESTS}totalsharefetchrequests_total", ""] >= 2
        assert found[f"{REQUESTS}totalshareacknowledgementrequests_total", ""] == 1
        assert found[f"{REQUESTS}failedshareacknowledgementrequests_total", ""] == 0
        place = {"group": "workers", "topic": "jobs", "partition": "0"}
        found = await read(http, "", **place)
        assert found == {
            ("kwire_share_group_waiting", ""): 3,
            (f"{PARTITIONS}inflightmessagecount", ""): 3,
            (f"{PARTITIONS}inflightbatchcount", ""): len(manager.loaded()[0].share.runs),
            (f"{PARTITIONS}acquisitionlocktimeout_total", ""): 0,
        }
        manager.end_locks("workers")
        found = await read(http, "", **place)
        assert found[f"{PARTITIONS}acquisitionlocktimeout_total", ""] == 2
        found = await read(http, "outcome", group="workers")
        outcomes = {
            outcome: value
            for (name, outcome), value in found.items()
            if name == "kwire_share_group_records_total"
        }
        assert outcomes == {
            "delivered": 6,
            "redelivered": 0,
            "acknowledged": 2,
            "released": 1,
            "expired": 2,
            "archived": 1,
        }
        assert found[f"{GROUPS}deadletterqueuerecordcount_total", ""] == 1
        tries = found[f"{GROUPS}deadletterqueuetotalproducerequests_total", ""]
        assert tries == 1 + found[f"{GROUPS}deadletterqueuefailedproducerequests_total", ""]
        await member.leave()


KINDS = ("Accept", "Release", "Reject", "Renew")


async def test_the_number_of_series_has_limits(tmp_path: Path) -> None:
    """Groups and partitions beyond them are counted as left out."""
    limits = {"kwire.metrics.max.groups": "1", "kwire.metrics.max.partitions": "2"}
    async with http_server(tmp_path, limits) as (running, http):
        await running.topic("jobs", partitions=3)
        members = [await join_share_group(running, name, "jobs") for name in ("one", "two")]
        await running.produce("jobs", b"value")
        for member in members:
            await member.fetch()
        found = await read(http, "partition", topic="jobs")
        waiting = [name for name, _ in found if name == "kwire_share_group_waiting"]
        assert len(waiting) == 2
        found = await read(http, "kind")
        assert found["kwire_metrics_left_out", "share partitions"] == 4
        assert found["kwire_metrics_left_out", "share groups"] == 1
        for member in members:
            await member.leave()

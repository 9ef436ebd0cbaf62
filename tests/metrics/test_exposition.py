"""/metrics: what the broker has done is what the numbers say, and their number has limits."""

import re
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_metrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from kwire.broker.metrics_counters import BUCKETS, Histogram, MetricsCounters
from kwire.errors import ErrorCode
from kwire.handlers import APIS
from kwire.metrics.definitions import definitions
from kwire.protocol.error_codes import error_codes
from kwire.protocol.messages import message_classes
from kwire.protocol.messages.create_topics import (
    CreateTopicsResponse,
)
from kwire.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kwire.protocol.messages.fetch import (
    FetchResponse,
)
from kwire.protocol.messages.produce import (
    ProduceResponse,
)
from kwire.testing.waiting import until
from tests.support.in_process import RawClient, RunningServer
from tests.support.records import batch as batch_of
from tests.support.requests import fetch_request, produce_request
from tests.web.conftest import http_server

METRICS = "kafka_server_brokertopicmetrics_"


def batch(records: int) -> bytes:
    """A batch of so many records of 100 bytes."""
    return batch_of(*[b"x" * 100] * records)


async def produce(client: RawClient, topic: str, records: bytes, version: int = 9) -> int:
    """Write a batch; its error code. Versions before 9 take the slow path."""
    request = produce_request(topic, records)
    response = await client.request(request, version, ProduceResponse)
    return response.responses[0].partition_responses[0].error_code


async def fetch(client: RawClient, topic: str, version: int) -> int:
    """Read a topic; the number of bytes. Versions before 12 take the slow path."""
    response = await client.request(fetch_request(topic), version, FetchResponse)
    records = response.responses[0].partitions[0].records
    assert isinstance(records, memoryview | bytes)
    return len(records)


class Read:
    """The samples of an answer by name and labels."""

    def __init__(self, text: str) -> None:
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def get(self, name: str, **labels: str) -> float:
        """The value of a sample."""
        return self.samples[name, frozenset(labels.items())]

    def named(self, name: str) -> list[dict[str, str]]:
        """The labels of every sample of this name."""
        return [dict(labels) for found, labels in self.samples if found == name]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gather the metrics anew for each question."""
    monkeypatch.setattr("kwire.web.metrics.FRESH_S", 0.0)


async def read(http: httpx.AsyncClient) -> Read:
    """The metrics now."""
    answer = await http.get("/metrics")
    assert answer.status_code == 200, answer.text
    return Read(answer.text)


async def used(running: RunningServer) -> RawClient:
    """A client that has produced and fetched in each way, and used a group."""
    client = await running.connect()
    await client.topic("orders")
    assert await produce(client, "orders", batch(4), version=8) == 0
    assert await produce(client, "orders", batch(3)) == 0
    assert await produce(client, "missing", batch(1), version=8) != 0
    assert await fetch(client, "orders", 12) > 700
    assert await fetch(client, "orders", 11) > 700
    await running.broker.groups.ensure_topic()
    await client.commit("g", "orders", 5)
    return client


async def test_traffic_is_counted_in_whatever_way_it_is_served(tmp_path: Path) -> None:
    """Records, bytes, requests and errors, for each topic and in all."""
    async with http_server(tmp_path) as (running, http):
        client = await used(running)
        found = await read(http)
        size_bytes = len(batch(3)) + len(batch(4))
        assert found.get(f"{METRICS}messagesin_total", topic="orders") == 7
        assert found.get(f"{METRICS}bytesin_total", topic="orders") == size_bytes
        assert found.get(f"{METRICS}bytesout_total", topic="orders") == 2 * size_bytes
        assert found.get(f"{METRICS}bytesout_total") == 2 * size_bytes
        assert found.get(f"{METRICS}totalproducerequests_total") == 3
        assert found.get(f"{METRICS}totalfetchrequests_total") == 2
        assert found.get(f"{METRICS}failedproducerequests_total") == 1
        requests = "kafka_network_requestmetrics_requests_total"
        assert found.get(requests, request="OffsetCommit") == 1
        assert found.get("kwire_request_seconds_count", request="Produce", phase="total") == 3
        assert found.get("kwire_request_seconds_count", request="Produce", phase="local") == 2
        errors = "kafka_network_requestmetrics_errors_total"
        error = "UNKNOWN_TOPIC_OR_PARTITION"
        assert found.get(errors, request="Produce", error=error) == 1
        assert found.get("kafka_log_log_logendoffset", topic="orders", partition="0") == 7
        assert found.get("kwire_connections", listener="PLAINTEXT") == 1
        assert found.get("kwire_loop_pass_seconds_count") >= 6
        await client.aclose()


async def test_groups_and_their_lag(tmp_path: Path) -> None:
    """Under the names that dashboards of kafka_exporter know."""
    async with http_server(tmp_path) as (running, http):
        client = await used(running)
        found = await read(http)
        labels = {"consumergroup": "g", "topic": "orders"}
        assert found.get("kafka_consumergroup_lag", partition="0", **labels) == 2
        assert found.get("kafka_consumergroup_current_offset", partition="0", **labels) == 5
        assert found.get("kafka_consumergroup_lag_sum", **labels) == 2
        assert found.get("kafka_consumergroup_members", consumergroup="g") == 0
        assert found.get("kwire_groups", type="classic", state="Empty") == 1
        await client.aclose()


async def test_the_totals_outlive_a_topic(tmp_path: Path) -> None:
    """A counter that shrank would count as a restart of the broker."""
    async with http_server(tmp_path) as (running, http):
        client = await used(running)
        before = await read(http)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=5000)
        await client.request(request, 6, DeleteTopicsResponse)
        await until(lambda: running.broker.partition_if_served("orders", 0) is None)
        after = await read(http)
        for name in ("messagesin", "bytesin", "bytesout"):
            total = f"{METRICS}{name}_total"
            assert after.get(total) >= before.get(total) > 0
            assert {"topic": "orders"} not in after.named(total)
        await client.aclose()


async def test_the_number_of_series_has_limits(tmp_path: Path) -> None:
    """The busiest topics stay; what is left out is counted."""
    limits = {
        "kwire.metrics.max.topics": "2",
        "kwire.metrics.max.partitions": "3",
        "kwire.metrics.max.groups": "1",
    }
    async with http_server(tmp_path, limits) as (running, http):
        client = await running.connect()
        for name in ("a", "b", "c"):
            await client.topic(name, partitions=2)
        await produce(client, "c", batch(9))
        await produce(client, "b", batch(1))
        await running.broker.groups.ensure_topic()
        for group in ("g1", "g2", "g3"):
            await client.commit(group, "c", 1)
        found = await read(http)
        topics = {labels["topic"] for labels in found.named("kwire_topic_partitions")}
        assert len(topics) == 2
        assert "c" in topics
        assert len(found.named("kafka_log_log_size")) == 3
        assert len(found.named("kafka_consumergroup_members")) == 1
        assert found.get("kwire_groups", type="classic", state="Empty") == 3
        assert found.get("kwire_metrics_left_out", kind="groups") == 2
        assert found.get("kwire_metrics_left_out", kind="topics") == 2
        assert found.get("kwire_metrics_left_out", kind="partitions") == 7 - 3
        await client.aclose()


async def test_both_formats_are_what_they_claim_to_be(tmp_path: Path) -> None:
    """prometheus_client's own parsers take them, and every metric is in the table."""
    async with http_server(tmp_path) as (running, http):
        client = await used(running)
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        answer = await http.get("/metrics", headers=accept)
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        assert list(open_metrics_families(answer.text))
        answer = await http.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=")
        types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", answer.text, re.MULTILINE))
        for name, kind in types.items():
            assert definitions()[name].kind == kind
        await client.aclose()


async def test_names_of_clients_cannot_forge_a_sample(tmp_path: Path) -> None:
    """A group id may hold line breaks and quotes."""
    async with http_server(tmp_path) as (running, http):
        client = await used(running)
        forged = 'x"} 1\nkwire_bugs_total 99\n# '
        await client.commit(forged, "orders", 5)
        found = await read(http)
        assert found.get("kwire_bugs_total") == 0
        assert found.get("kafka_consumergroup_members", consumergroup=forged) == 0
        await client.aclose()


async def test_many_scrapes_gather_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks a thousand times a second costs the broker one look a second."""
    monkeypatch.setattr("kwire.web.metrics.FRESH_S", 1000.0)
    async with http_server(tmp_path) as (running, http):
        first = await http.get("/metrics")
        client = await used(running)
        assert (await http.get("/metrics")).text == first.text
        await client.aclose()


def test_times_fall_into_their_buckets() -> None:
    """The bucket of 2**n µs holds what is below it; the last takes whatever is longer."""
    spread = Histogram()
    for seconds in (0.0, 0.000_015, 0.000_016, 1.0, 1e9):
        spread.add(seconds)
    assert sum(spread.counts[:5]) == 2
    assert sum(spread.counts[:6]) == 3
    assert spread.counts[BUCKETS - 1] == 1
    assert sum(spread.counts) == 5


def test_a_pass_counts_each_single_request_once() -> None:
    """Its time is that of its pass, long or short."""
    counters = MetricsCounters()
    counters.singles += 3
    counters.end_pass(0.000_010)
    assert counters.single_times.sum_us == 30
    counters.singles += 1
    counters.end_pass(1e9)
    counters.end_pass(0.0)
    assert sum(counters.single_times.counts) == 4
    assert sum(counters.passes.counts) == 3


def test_error_codes_are_found_at_every_depth() -> None:
    """And no API's response breaks the search."""
    for key in APIS:
        assert error_codes(message_classes(key)[1]()) == []
    response = ProduceResponse()
    assert error_codes(response) == []
    topics = CreateTopicsResponse()
    topics.topics = [type(topics).FIELDS[1].element(error_code=code) for code in (0, 36, 36)]  # type: ignore[operator, union-attr, misc]
    assert error_codes(topics) == [ErrorCode.TOPIC_ALREADY_EXISTS] * 2

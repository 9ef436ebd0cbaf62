"""KIP-714: clients are asked for metrics, and what they push comes out at /metrics."""

import threading
import tracemalloc
import weakref
from functools import partial
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kwire.broker.client_metrics import Client, ClientMetrics
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import ConfigResourceType, MetadataImage
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kwire.protocol.otlp import Point
from kwire.protocol.types import ZERO_UUID
from kwire.record.compression import compress
from kwire.testing.waiting import until
from tests.metrics.pushes import added, gauge, pushed
from tests.support.clock import FakeClock
from tests.support.in_process import RawClient, running_server
from tests.web.conftest import http_server

CLIENT_METRICS = 16
ME = bytes(range(16))


async def subscribe(client: RawClient, name: str, **configs: str) -> tuple[int, str | None]:
    """Set a subscription as kafka-client-metrics.sh does; the error code and its text."""
    resource = AlterConfigsResource(
        resource_type=CLIENT_METRICS,
        resource_name=name,
        configs=[
            AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
            for key, value in configs.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = await client.request(request, 1, IncrementalAlterConfigsResponse)
    return response.responses[0].error_code, response.responses[0].error_message


async def unsubscribe(client: RawClient, name: str) -> None:
    """Delete a subscription that has only metrics."""
    metrics = AlterableConfig(name="metrics", config_operation=1, value=None)
    resource = AlterConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=name, configs=[metrics]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = await client.request(request, 1, IncrementalAlterConfigsResponse)
    assert not answer.responses[0].error_code


async def ask(client: RawClient, instance: bytes = ME) -> GetTelemetrySubscriptionsResponse:
    """Ask for the subscription."""
    request = GetTelemetrySubscriptionsRequest(client_instance_id=instance)
    return await client.request(request, 0, GetTelemetrySubscriptionsResponse)


async def push(client: RawClient, subscription: int, metrics: bytes, codec: int = 0) -> int:
    """Push; the error code."""
    request = PushTelemetryRequest(
        client_instance_id=ME,
        subscription_id=subscription,
        compression_type=codec,
        metrics=metrics,
    )
    return (await client.request(request, 0, PushTelemetryResponse)).error_code


async def advertised(client: RawClient) -> set[int]:
    """The keys of the APIs that the broker tells clients of."""
    response = await client.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return {api.api_key for api in response.api_keys}


async def test_clients_are_told_of_the_apis_only_if_somebody_wants_and_sees_the_metrics(
    tmp_path: Path,
) -> None:
    """Stock clients ask every broker that has the APIs; Kafka has them with a plugin only."""
    async with running_server(tmp_path / "without") as running:
        client = await running.connect()
        await subscribe(client, "all", metrics="*")
        assert not {71, 72} & await advertised(client)
        await client.aclose()
    async with http_server(tmp_path / "with") as (running, _):
        client = await running.connect()
        assert not {71, 72} & await advertised(client)
        await subscribe(client, "all", metrics="*")
        assert {71, 72} <= await advertised(client)
        await unsubscribe(client, "all")
        assert not {71, 72} & await advertised(client)
        await client.aclose()


def exposed(text: str) -> dict[str, tuple[dict[str, str], float]]:
    """The labels and the value of each metric of clients."""
    return {
        sample.name: (sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("kafka_client_")
    }


@pytest.mark.parametrize("codec", range(5))
async def test_what_a_client_pushes_comes_out(tmp_path: Path, codec: int) -> None:
    """With every codec; nothing that a client names can replace its own labels."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        assert await subscribe(client, "all", metrics="*", interval_ms="100") == (0, None)
        answer = await ask(client)
        assert answer.error_code == 0
        assert answer.requested_metrics == ["*"]
        assert answer.push_interval_ms == 100
        assert answer.accepted_compression_types == [4, 3, 1, 2]
        data = pushed(
            gauge("org.apache.kafka.producer.a-b.avg", 2.5, client_id="somebody else", topic="t"),
            added("org.apache.kafka.producer.records", 3),
            rack="r",
        )
        assert await push(client, answer.subscription_id, compress(codec, data), codec) == 0
        found = exposed((await http.get("/metrics")).text)
        labels, value = found["kafka_client_producer_a_b_avg"]
        assert value == 2.5
        assert labels == {
            "client_id": "raw",
            "client_instance_id": "AAECAwQFBgcICQoLDA0ODw",
            "rack": "r",
            "topic": "t",
        }
        assert found["kafka_client_producer_records_total"][1] == 3
        await client.aclose()


async def test_errors_are_those_of_kafka(tmp_path: Path) -> None:
    """In the order in which ClientMetricsManager checks."""
    async with http_server(tmp_path, {"telemetry.max.bytes": "100"}) as (running, _):
        client = await running.connect()
        assert (await ask(client, ZERO_UUID)).client_instance_id != ZERO_UUID
        answer = await ask(client)
        assert (answer.requested_metrics, answer.push_interval_ms) == ([], 300_000)
        assert (await ask(client)).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        request = PushTelemetryRequest(client_instance_id=ZERO_UUID)
        refused = await client.request(request, 0, PushTelemetryResponse)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert await push(client, 1, b"") == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        assert await push(client, 1, b"") == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        for number, (metrics, codec, error) in enumerate(
            [
                (b"", 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
                (b"x" * 101, 0, ErrorCode.TELEMETRY_TOO_LARGE),
                (b"\xff" * 20, 0, ErrorCode.INVALID_RECORD),
                (b"not gzip", 1, ErrorCode.INVALID_RECORD),
                (compress(1, bytes(10_000)), 1, ErrorCode.INVALID_RECORD),
            ]
        ):
            # Another subscription makes the instance new.
            await subscribe(client, "s", metrics=f"m{number}")
            subscription = (await ask(client)).subscription_id
            assert await push(client, subscription, metrics, codec) == error
        await client.aclose()


async def test_a_client_that_has_ended_pushes_no_more(tmp_path: Path) -> None:
    """After a push with ``terminating``, the next request is invalid."""
    async with http_server(tmp_path) as (running, _):
        client = await running.connect()
        subscription = (await ask(client)).subscription_id
        last = PushTelemetryRequest(
            client_instance_id=ME, subscription_id=subscription, terminating=True
        )
        assert (await client.request(last, 0, PushTelemetryResponse)).error_code == 0
        assert await push(client, subscription, b"") == ErrorCode.INVALID_REQUEST
        await client.aclose()


@pytest.mark.parametrize("match", ["client_id", "nothing=x", "client_id=[", "client_id=a=b"])
async def test_a_malformed_pattern_is_refused(tmp_path: Path, match: str) -> None:
    """When it is set, in Kafka's words."""
    async with running_server(tmp_path) as running:
        client = await running.connect()
        code, message = await subscribe(client, "s", match=match)
        assert code == ErrorCode.INVALID_CONFIG
        assert message == f"Illegal client matching pattern: {match}"
        await client.aclose()


async def test_subscriptions_are_for_the_clients_that_match(tmp_path: Path) -> None:
    """By what a client calls itself; several subscriptions add up, the shortest interval counts."""
    async with http_server(tmp_path) as (running, _):
        client = await running.connect()
        version = ApiVersionsRequest(client_software_name="mine", client_software_version="1.2")
        await client.request(version, 3, ApiVersionsResponse)
        match = "client_software_name=m.*,client_software_version=1[.]2,client_source_address=127.*"
        await subscribe(client, "a", metrics="x.,y.", match=match, interval_ms="7000")
        await subscribe(client, "b", metrics="y.,z.", match="client_id=raw", interval_ms="9000")
        await subscribe(client, "c", metrics="*", match="client_id=ra", interval_ms="100")
        answer = await ask(client)
        assert sorted(answer.requested_metrics) == ["x.", "y.", "z."]
        assert answer.push_interval_ms == 7000
        await client.aclose()


class Broker:
    """What the metrics of clients need of a broker."""

    def __init__(self, most: int) -> None:
        self.image = MetadataImage(
            configs={(ConfigResourceType.CLIENT_METRICS, "s"): {"metrics": "*"}}
        )
        self.clock = FakeClock()
        self._most = most

    def integer(self, name: str) -> int:
        """The limit of series."""
        assert name == "kwire.metrics.max.client.series"
        return self._most


def is_here() -> bool:
    """A connection has not ended."""
    return False


def has_ended() -> bool:
    """A connection has ended."""
    return True


def client(connection_id: int = 1, *, is_gone: bool = False, called: str = "c") -> Client:
    """A client on a connection."""
    ended = has_ended if is_gone else is_here
    return Client(called, "", "", "127.0.0.1", 1, connection_id, ended)


def point(name: str, value: float = 1.0, *, is_delta: bool = False) -> Point:
    """A value."""
    return Point(name, (), value, is_delta, is_delta)


def test_series_have_a_limit_and_go_with_their_instance() -> None:
    """Further ones are dropped, and counted; three intervals of silence make room."""
    broker = Broker(3)
    metrics = ClientMetrics(broker)
    metrics.get(ME, client())
    metrics.keep_points(ME, client(), [point(f"m{n}") for n in range(5)])
    assert (len(metrics.series()), metrics.dropped) == (3, 2)
    broker.clock.pass_time(899_999)
    assert len(metrics.series()) == 3
    broker.clock.pass_time(1)
    assert metrics.series() == []
    other = bytes(16 * [7])
    metrics.get(other, client())
    metrics.keep_points(other, client(), [point(f"m{n}") for n in range(3)])
    assert len(metrics.series()) == 3


def test_differences_add_up() -> None:
    """A sum is pushed as what was added since; a value that is no number spoils nothing."""
    metrics = ClientMetrics(Broker(10))
    metrics.get(ME, client())
    for value in (2.0, float("nan"), 3.0):
        metrics.keep_points(ME, client(), [point("m", value, is_delta=True)])
    assert [value for _, value in metrics.series()] == [5.0]


def test_a_new_connection_makes_a_new_instance_once_the_old_is_gone() -> None:
    """As in Kafka: a client that dials again is not throttled, two connections at a time are."""
    metrics = ClientMetrics(Broker(10))
    metrics.get(ME, client())
    with pytest.raises(KafkaError):
        metrics.get(ME, client(2))
    gone = ClientMetrics(Broker(10))
    gone.get(ME, client(is_gone=True))
    gone.get(ME, client(2))


def test_one_connection_fills_no_memory() -> None:
    """However many instance ids it gets, and whatever it calls itself."""
    metrics = ClientMetrics(Broker(10))
    tracemalloc.start()
    try:
        for number in range(1000):
            metrics.get(number.to_bytes(16), client(called=f"{number:32000}"))
        one = tracemalloc.get_traced_memory()[0]
        assert len(metrics) == 1
        for number in range(1000):
            metrics.get(number.to_bytes(16), client(number, called=f"{number:32000}"))
        many = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert one < 100_000
    assert len(metrics) == 1000
    assert many < 2_000_000


def test_instances_without_values_go_with_their_connections() -> None:
    """Those with values stay, and Prometheus sees them until three intervals are over."""
    metrics = ClientMetrics(Broker(10))
    metrics.get(ME, client(is_gone=True))
    metrics.keep_points(ME, client(is_gone=True), [point("m")])
    for number in range(1, 1000):
        metrics.get(number.to_bytes(16), client(number, is_gone=True))
    assert len(metrics) <= 3
    assert [series.name for series, _ in metrics.series()] == ["kafka_client_m"]


def test_an_instance_does_not_keep_its_connection() -> None:
    """What the connection has ended with it is forgotten, and counts as ended."""
    metrics = ClientMetrics(Broker(10))

    class Connection:
        def is_gone(self) -> bool:
            return False

    connection = Connection()
    ask_it = partial(Connection.is_gone, connection)
    weak = weakref.ref(connection)
    metrics.get(ME, Client("c", "", "", "127.0.0.1", 1, 1, ask_it))
    del connection, ask_it
    assert weak() is None
    metrics.get(ME, client(2))


def test_names_are_made_safe() -> None:
    """Whatever a client calls its metrics, Prometheus can read them, each name once."""
    metrics = ClientMetrics(Broker(100))
    metrics.get(ME, client())
    odd = Point('x"}\n', (("__name__", "evil"), ("9", "a"), ("", "b"), ("é", "c")), 1, False, False)
    metrics.keep_points(ME, client(), [odd, point("a.b"), point("a_b", 7), point("n" * 9999)])
    found = {series.name: (dict(series.labels), value) for series, value in metrics.series()}
    assert found["kafka_client_a_b"][1] == 7
    labels = found["kafka_client_x___"][0]
    assert labels["name__"] == "evil"
    assert all(key.isidentifier() and not key.startswith("__") for key in labels)
    assert max(map(len, found)) < 300


async def test_clients_cannot_break_the_answer(tmp_path: Path) -> None:
    """Two clients may give one name two types: the answer stays readable in both formats."""
    async with http_server(tmp_path) as (running, http):
        raw = await running.connect()
        subscription = (await ask(raw)).subscription_id
        data = pushed(gauge("m.total", 1), added("m", 2), gauge("m", 3), gauge("m.bucket", 4))
        assert await push(raw, subscription, data) == 0
        answer: httpx.Response = await http.get("/metrics")
        assert {"kafka_client_m", "kafka_client_m_total"} <= exposed(answer.text).keys()
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        answer = await http.get("/metrics", headers=accept)
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict

        assert list(strict(answer.text))
        await raw.aclose()


async def test_a_stop_does_not_wait_until_a_push_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading changes nothing, so nobody has to wait for its end."""
    has_begun, gate, waited = threading.Event(), threading.Event(), []

    def read(*_args: object) -> list[Point]:
        has_begun.set()
        waited.append(gate.wait(20))
        return []

    monkeypatch.setattr("kwire.handlers.push_telemetry.points", read)
    async with running_server(tmp_path) as server:
        client = await server.connect()
        told = await ask(client)
        request = PushTelemetryRequest(
            client_instance_id=ME, subscription_id=told.subscription_id, metrics=b"m"
        )
        await client.send(request, 0)
        await until(has_begun.is_set)
    assert not waited
    gate.set()
    await client.aclose()

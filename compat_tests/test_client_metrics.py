"""Metrics that stock clients push (KIP-714): librdkafka's and Java's, each as it is by default."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool
from compat_tests.raw_client import RawClient
from kwire.errors import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until

COMMAND = "org.apache.kafka.tools.ClientMetricsCommand"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that asks every client for all metrics, four times a second."""
    settings = {"kwire.http.listen": "127.0.0.1:0"}
    with BrokerProcess(tmp_path / "data", settings) as running:
        options = ("--alter", "--name", "all", "--metrics", "*", "--interval", "250")
        run_tool(COMMAND, "--bootstrap-server", running.bootstrap, *options)
        yield running


def shown(broker: BrokerProcess, client_id: str) -> list[str]:
    """The lines of /metrics with what a client has pushed."""
    with urllib.request.urlopen(broker.http + "metrics", timeout=60) as answer:
        lines: list[str] = answer.read().decode().splitlines()
    mine = f'client_id="{client_id}"'
    return [line for line in lines if line.startswith("kafka_client_") and mine in line]


def test_librdkafka_pushes_its_metrics(broker: BrokerProcess) -> None:
    """Without a setting of its own."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "mine"})
    producer.produce("t", b"x")
    wait_until(
        lambda: (
            producer.poll(0.05) >= 0
            and any("producer_record_queue_time_avg" in line for line in shown(broker, "mine"))
        ),
        timeout_s=60,
        what="its metrics at /metrics",
    )
    producer.flush()


def test_the_java_client_pushes_its_metrics(broker: BrokerProcess) -> None:
    """Kafka's own tool for a load, as it comes."""
    load = ("--topic", "t", "--num-records", "500", "--record-size", "100", "--throughput", "250")
    run_tool(
        "org.apache.kafka.tools.ProducerPerformance", *load, "--bootstrap-server", broker.bootstrap
    )
    lines = shown(broker, "perf-producer-client")
    assert any(line.startswith("kafka_client_producer_request_latency_avg{") for line in lines)


def test_a_subscription_is_described_as_it_was_set(broker: BrokerProcess) -> None:
    """kafka-client-metrics.sh shows it, changes it, and deletes it."""
    server = ("--bootstrap-server", broker.bootstrap)
    told = run_tool(COMMAND, *server, "--describe", "--name", "all")
    assert "interval.ms=250" in told
    assert "metrics=*" in told
    run_tool(COMMAND, *server, "--delete", "--name", "all")
    assert "all" not in run_tool(COMMAND, *server, "--list")


def test_a_broker_that_shows_no_metrics_asks_for_none(bootstrap: str) -> None:
    """Kafka without a plugin for them, and kwire without an HTTP port, don't have the APIs."""
    with RawClient(bootstrap) as raw:
        answer = raw.ask(ApiVersionsRequest(), 0)
    assert not {71, 72} & {api.api_key for api in answer.api_keys}


def subscribe(raw: RawClient, name: str, **configs: str) -> tuple[int, str | None]:
    """Set a subscription; the error code and its text."""
    altered = [
        AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
        for key, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=16, resource_name=name, configs=altered)
    answer = raw.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    return answer.responses[0].error_code, answer.responses[0].error_message


@pytest.mark.parametrize("match", ["client_id", "nothing=x", "client_id=[", "client_id=a=b"])
def test_a_malformed_pattern_is_refused(bootstrap: str, names: Names, match: str) -> None:
    """With the same words."""
    with RawClient(bootstrap) as raw:
        told = subscribe(raw, names.group(), match=match)
    assert told == (ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {match}")


def test_whoever_uses_the_apis_unasked_is_answered(bootstrap: str) -> None:
    """The APIs are served even if no client is told of them; errors are in Kafka's order."""
    me = uuid4().bytes
    with RawClient(bootstrap) as raw:

        def push(instance: bytes = me, subscription: int = 1, **more: int | bytes) -> int:
            request = PushTelemetryRequest(
                client_instance_id=instance, subscription_id=subscription, **more
            )
            code: int = raw.ask(request, 0).error_code
            return code

        def get(instance: bytes) -> GetTelemetrySubscriptionsResponse:
            request = GetTelemetrySubscriptionsRequest(client_instance_id=instance)
            answer: GetTelemetrySubscriptionsResponse = raw.ask(request, 0)
            return answer

        assert get(bytes(16)).client_instance_id != bytes(16)
        answer = get(me)
        assert answer.accepted_compression_types == [4, 3, 1, 2]
        assert answer.delta_temporality
        assert answer.telemetry_max_bytes == 1 << 20
        assert get(me).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert push(bytes(16)) == ErrorCode.INVALID_REQUEST
        assert push(bytes(15) + b"\1") == ErrorCode.INVALID_REQUEST
        subscription = answer.subscription_id
        assert push(subscription=subscription + 1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        assert push(subscription=subscription) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert get(me).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        for more, error in (
            ({"compression_type": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
            ({"compression_type": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
            ({"metrics": bytes((1 << 20) + 1)}, ErrorCode.TELEMETRY_TOO_LARGE),
        ):
            other = uuid4().bytes
            assert push(other, get(other).subscription_id, **more) == error
        unknown = uuid4().bytes
        assert push(unknown) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        last = uuid4().bytes
        subscription = get(last).subscription_id
        assert push(last, subscription, terminating=True) == 0
        assert push(last, subscription, terminating=True) == ErrorCode.INVALID_REQUEST


def test_an_instance_goes_with_its_connection(bootstrap: str) -> None:
    """A client that dials again is not throttled."""
    request = GetTelemetrySubscriptionsRequest(client_instance_id=uuid4().bytes)
    with RawClient(bootstrap) as raw:
        assert raw.ask(request, 0).error_code == 0
        assert raw.ask(request, 0).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    with RawClient(bootstrap) as raw:
        wait_until(lambda: raw.ask(request, 0).error_code == 0, timeout_s=30, what="it to be new")

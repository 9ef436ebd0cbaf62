"""Metrics that stock clients push (KIP-714): librdkafka's and Java's, each as it is by default."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.java_tools import run_tool
from compat_tests.raw_client import RawClient
from kwire.protocol.messages.api_versions import ApiVersionsRequest
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

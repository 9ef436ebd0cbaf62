"""Kafka's own command line tools: what they print of a broker, and what they do to it.

They are the tools of Apache Kafka, run as processes from its jars.
"""

import json
import re
from pathlib import Path

import pytest

from compat_tests.clients import consume_confluent, produce_confluent
from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool, started_tool
from compat_tests.kafka_version import CONFIGS
from compat_tests.test_groups import rows
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"


def test_topics(bootstrap: str, names: Names) -> None:
    """kafka-topics creates, lists, describes, alters and deletes."""
    topic = names.topic("java")
    server = ("--bootstrap-server", bootstrap)
    settings = ("--partitions", "2", "--config", "retention.ms=5000")
    assert topic in run_tool(TOPICS, *server, "--create", "--topic", topic, *settings)
    run_tool(TOPICS, *server, "--alter", "--topic", topic, "--partitions", "3")
    described = run_tool(TOPICS, *server, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=5000" in described
    assert len(re.findall(r"Leader: \d+", described)) == 3
    assert topic in run_tool(TOPICS, *server, "--list").split()
    run_tool(TOPICS, *server, "--delete", "--topic", topic)
    assert topic not in run_tool(TOPICS, *server, "--list").split()


def test_configs(bootstrap: str, names: Names) -> None:
    """kafka-configs alters and describes topics and brokers."""
    topic = names.topic("java")
    create_topics(bootstrap, topic)
    of_topic = ("--bootstrap-server", bootstrap, "--entity-type", "topics", "--entity-name", topic)
    run_tool(CONFIGS, *of_topic, "--alter", "--add-config", "max.message.bytes=7777")
    shown = run_tool(CONFIGS, *of_topic, "--describe")
    assert "max.message.bytes=7777" in shown
    assert "DYNAMIC_TOPIC_CONFIG:max.message.bytes=7777" in shown
    assert "DEFAULT_CONFIG:message.max.bytes=1048588" in shown
    run_tool(CONFIGS, *of_topic, "--alter", "--delete-config", "max.message.bytes")
    assert "7777" not in run_tool(CONFIGS, *of_topic, "--describe")
    of_broker = ("--entity-type", "brokers", "--entity-name", "1")
    shown = run_tool(CONFIGS, "--bootstrap-server", bootstrap, *of_broker, "--describe", "--all")
    assert "log.segment.bytes=1073741824" in shown


def test_console_clients(bootstrap: str, names: Names) -> None:
    """kafka-console-producer's lines come out of kafka-console-consumer."""
    topic = names.topic("java")
    create_topics(bootstrap, topic)
    lines = [f"key{n}:value {n}" for n in range(100)]
    parse = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    arguments = ("--bootstrap-server", bootstrap, "--topic", topic, *parse)
    run_tool(PRODUCER, *arguments, stdin="\n".join(lines) + "\n")
    show = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
    read = ("--from-beginning", "--max-messages", "100", "--timeout-ms", "30000")
    printed = run_tool(CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic, *read, *show)
    assert printed.split("\n")[:100] == lines


def test_consumer_groups_and_offsets(bootstrap: str, names: Names) -> None:
    """kafka-consumer-groups shows lag and resets offsets; kafka-get-offsets shows the ends."""
    topic, group = names.topic("java"), names.group()
    create_topics(bootstrap, topic)
    produce_confluent(bootstrap, topic, rows(0, 40))
    server = ("--bootstrap-server", bootstrap)
    read = ("--from-beginning", "--max-messages", "40", "--timeout-ms", "30000")
    run_tool(CONSUMER, *server, "--topic", topic, "--group", group, *read)
    produce_confluent(bootstrap, topic, rows(40, 55))

    def lag() -> list[str]:
        shown = run_tool(GROUPS, *server, "--describe", "--group", group)
        return next(line.split()[3:6] for line in shown.splitlines() if topic in line)

    assert lag() == ["40", "55", "15"]
    assert group in run_tool(GROUPS, *server, "--list").split()
    reset = ("--reset-offsets", "--to-offset", "5", "--execute")
    run_tool(GROUPS, *server, *reset, "--group", group, "--topic", topic)
    assert lag() == ["5", "55", "50"]
    states = run_tool(GROUPS, *server, "--describe", "--group", group, "--state")
    assert "Empty" in states
    run_tool(GROUPS, *server, "--delete", "--group", group)
    assert group not in run_tool(GROUPS, *server, "--list").split()
    for time, offset in (("earliest", 0), ("latest", 55)):
        shown = run_tool(OFFSETS, *server, "--topic", topic, "--time", time)
        assert shown.strip() == f"{topic}:0:{offset}"


def test_delete_records(bootstrap: str, names: Names, tmp_path: Path) -> None:
    """kafka-delete-records moves the start of a partition."""
    topic = names.topic("java")
    create_topics(bootstrap, topic)
    produce_confluent(bootstrap, topic, rows(0, 40))
    wanted = tmp_path / "delete.json"
    partitions = [{"topic": topic, "partition": 0, "offset": 25}]
    wanted.write_text(json.dumps({"version": 1, "partitions": partitions}), encoding="utf-8")
    arguments = ("--bootstrap-server", bootstrap, "--offset-json-file", str(wanted))
    printed = run_tool("org.apache.kafka.tools.DeleteRecordsCommand", *arguments)
    assert "low_watermark: 25" in printed


def test_api_versions_and_log_dirs(bootstrap: str, names: Names) -> None:
    """kafka-broker-api-versions and kafka-log-dirs show the broker that has the partition."""
    topic = names.topic("java")
    create_topics(bootstrap, topic)
    produce_confluent(bootstrap, topic, rows(0, 40))
    server = ("--bootstrap-server", bootstrap)
    printed = run_tool("org.apache.kafka.tools.BrokerApiVersionsCommand", *server)
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", printed)
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", printed)
    arguments = (*server, "--describe", "--topic-list", topic)
    printed = run_tool("org.apache.kafka.tools.LogDirsCommand", *arguments)
    described = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    directories = [one for broker in described["brokers"] for one in broker["logDirs"]]
    [partition] = [found for directory in directories for found in directory["partitions"]]
    assert partition["partition"] == f"{topic}-0"
    assert partition["size"] > 0


def test_verifiable_clients(bootstrap: str, names: Names) -> None:
    """What VerifiableProducer says it wrote is what VerifiableConsumer says it read."""
    topic, group = names.topic("java"), names.group()
    create_topics(bootstrap, topic, partitions=3)
    server = ("--bootstrap-server", bootstrap)
    arguments = ("--topic", topic, "--max-messages", "2000", "--acks", "-1")
    printed = run_tool("org.apache.kafka.tools.VerifiableProducer", *server, *arguments)
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    acked = sorted(int(e["value"]) for e in events if e["name"] == "producer_send_success")
    assert acked == list(range(2000))
    arguments = ("--topic", topic, "--group-id", group, "--max-messages", "2000")
    options = ("--reset-policy", "earliest")
    printed = run_tool("org.apache.kafka.tools.VerifiableConsumer", *server, *arguments, *options)
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert sum(e["count"] for e in events if e["name"] == "records_consumed") == 2000
    committed = [e for e in events if e["name"] == "offsets_committed"]
    assert committed
    assert all(e["success"] for e in committed)


def test_performance_tools(bootstrap: str, names: Names) -> None:
    """kafka-producer-perf-test writes with the default producer, the consumer's reads it all."""
    topic = names.topic("java")
    create_topics(bootstrap, topic)
    server = ("--bootstrap-server", bootstrap)
    size = ("--num-records", "20000", "--record-size", "200", "--throughput", "-1")
    printed = run_tool(
        "org.apache.kafka.tools.ProducerPerformance", *server, "--topic", topic, *size
    )
    assert "20000 records sent" in printed
    size = ("--num-records", "20000", "--timeout", "30000")
    printed = run_tool(
        "org.apache.kafka.tools.ConsumerPerformance", *server, "--topic", topic, *size
    )
    assert re.search(r", 20000, ", printed)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_the_java_producers_codecs(bootstrap: str, names: Names, codec: str) -> None:
    """Batches that Java compressed are read by librdkafka."""
    topic = names.topic("java")
    create_topics(bootstrap, topic)
    size = ("--num-records", "500", "--record-size", "300", "--throughput", "-1")
    options = ("--command-property", f"compression.type={codec}")
    arguments = ("--bootstrap-server", bootstrap, "--topic", topic, *size, *options)
    run_tool("org.apache.kafka.tools.ProducerPerformance", *arguments)
    found = consume_confluent(bootstrap, topic, 500)
    assert {len(value or b"") for _, value, _ in found} == {300}


def test_two_java_consumers_share_a_topic(bootstrap: str, names: Names) -> None:
    """Two VerifiableConsumers of a group rebalance; the one that stays takes everything."""
    topic, group = names.topic("java"), names.group()
    create_topics(bootstrap, topic, partitions=4)
    arguments = ("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group)
    first, second = (
        started_tool(
            "org.apache.kafka.tools.VerifiableConsumer", *arguments, "--reset-policy", "earliest"
        )
        for _ in range(2)
    )

    def partitions() -> list[int]:
        shown = run_tool(
            GROUPS, "--bootstrap-server", bootstrap, "--describe", "--group", group, "--members"
        )
        return sorted(int(n) for n in re.findall(r"\s(\d+)\s*$", shown, re.MULTILINE))

    try:
        wait_until(lambda: partitions() == [2, 2], timeout_s=60, what="two members to share")
        second.terminate()
        second.wait(30)
        wait_until(lambda: partitions() == [4], timeout_s=60, what="one member to take over")
    finally:
        for process in (first, second):
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

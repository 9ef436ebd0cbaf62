"""DescribeConfigs: names, values, types, sources and synonyms exactly as Kafka 4.4.0 tells them.

``kafka-4.4-describe-configs.json.gz`` holds what a fresh Kafka 4.4.0 in combined mode answered,
version 4 with synonyms: a row per config is name, value, read-only, source, sensitive, type,
synonyms. What depends on its ports and directories is left out, and ``min.insync.replicas``, which
its eligible leader replicas pin cluster-wide.
"""

import gzip
import json
from pathlib import Path

import pytest

from kwire.config.documentation import documentation
from kwire.errors import ErrorCode
from kwire.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.support.in_process import running_server

KAFKA = Path(__file__).parents[1] / "data" / "kafka-4.4-describe-configs.json.gz"
LEFT_OUT = {
    "advertised.listeners",
    "controller.quorum.bootstrap.servers",
    "listener.security.protocol.map",
    "listeners",
    "log.dirs",
    "min.insync.replicas",
}
OWN_DEFAULTS = {"socket.listen.backlog.size", "socket.receive.buffer.bytes"}
"""Where a new kwire differs from that Kafka (docs/decisions/0001-embedded-profile.md)."""
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


async def _describe(server, kind, name, *, version=4, keys=None, synonyms=True, texts=False):
    client = await server.connect()
    wanted = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(
        resources=[wanted], include_synonyms=synonyms, include_documentation=texts
    )
    response = await client.request(request, version, DescribeConfigsResponse)
    await client.aclose()
    (result,) = response.results
    return result


async def _set(server, kind, resource, **configs):
    client = await server.connect()
    wanted = AlterConfigsResource(
        resource_type=kind,
        resource_name=resource,
        configs=[
            AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
            for name, value in configs.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[wanted])
    response = await client.request(request, 1, IncrementalAlterConfigsResponse)
    await client.aclose()
    assert [r.error_code for r in response.responses] == [ErrorCode.NONE]


def _rows(result):
    return {
        config.name: [
            config.name,
            config.value,
            config.read_only,
            config.config_source,
            config.is_sensitive,
            config.config_type,
            [[s.name, s.value, s.source] for s in config.synonyms],
        ]
        for config in result.configs
    }


async def test_everything_is_as_kafka_tells_it(tmp_path):
    """Every config of topics, the broker, a group and a client-metrics subscription."""
    kafka = json.loads(gzip.decompress(KAFKA.read_bytes()))
    async with running_server(tmp_path) as server:
        await server.topic("plain")
        await server.topic("own", **kafka["topic_configs"])
        for resource, expected in kafka["resources"].items():
            kind, name = resource.split("/")
            found = _rows(await _describe(server, int(kind), name))
            same = [row for row in expected if row[0] not in OWN_DEFAULTS]
            assert [found.get(row[0]) for row in same] == same
            more = {name for name in found if not name.startswith("kwire.")}
            assert more - {row[0] for row in expected} <= LEFT_OUT


async def test_sources_of_a_brokers_value(server):
    """The broker's own dynamic value, that of all brokers, the file's, the default: in order."""
    await _set(server, BROKER, "", message_max_bytes="2000", log_retention_ms="1000")
    await _set(server, BROKER, "1", message_max_bytes="3000")
    row = _rows(await _describe(server, BROKER, "1"))["message.max.bytes"]
    own, every, default = ["3000", 2], ["2000", 3], ["1048588", 5]
    assert row[1:4] == ["3000", False, 2]
    assert row[6] == [["message.max.bytes", *value] for value in (own, every, default)]
    assert server.broker.setting("message.max.bytes") == 3000
    topic = _rows(await _describe(server, TOPIC, "orders"))
    assert topic["max.message.bytes"][1] == "3000"
    assert topic["max.message.bytes"][6] == row[6]
    assert topic["retention.ms"][1:4] == ["1000", False, 3]
    assert _rows(await _describe(server, BROKER, "")).keys() == {
        "message.max.bytes",
        "log.retention.ms",
    }


async def test_static_values_and_secrets(tmp_path):
    """What the file says is static; a password is never shown."""
    settings = {"num.partitions": "4", "ssl.keystore.password": "secret", "log.roll.hours": "1"}
    async with running_server(tmp_path, settings) as server:
        await server.topic("t")
        broker = _rows(await _describe(server, BROKER, "1"))
        topic = _rows(await _describe(server, TOPIC, "t"))
    assert broker["num.partitions"][1:4] == ["4", True, 4]
    password = broker["ssl.keystore.password"]
    assert password[1] is None
    assert password[4]
    assert password[6] == [["ssl.keystore.password", None, 4]]
    assert topic["segment.ms"][1] == "3600000"


async def test_names_that_only_plugins_know_may_be_secrets(server):
    """A broker keeps them, and doesn't show them."""
    await _set(server, BROKER, "1", foo_bar="secret", leader_replication_throttled_rate="7")
    rows = _rows(await _describe(server, BROKER, "1"))
    assert rows["foo.bar"] == ["foo.bar", None, True, 2, True, 0, [["foo.bar", None, 2]]]
    assert rows["leader.replication.throttled.rate"][1:4] == ["7", False, 2]


@pytest.mark.parametrize("version", range(1, 5))
async def test_versions(server, version):
    """Synonyms when they are asked for, types from version 3 on."""
    result = await _describe(server, TOPIC, "orders", version=version, keys=["segment.bytes"])
    (config,) = result.configs
    assert [s.name for s in config.synonyms] == ["log.segment.bytes"]
    assert config.config_type == (3 if version >= 3 else 0)
    without = await _describe(server, TOPIC, "orders", version=version, synonyms=False)
    assert not any(config.synonyms for config in without.configs)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    ("kind", "name", "scope"),
    [(TOPIC, "orders", "topic"), (BROKER, "1", "broker"), (GROUP, "g", "group")],
)
async def test_documentation_where_it_is_asked_for(server, kind, name, scope, version):
    """The text of each config; null where nobody asked, as in Kafka 4.4.0."""
    found = await _describe(server, kind, name, version=version, texts=True)
    expected = documentation(scope)
    assert {c.name: c.documentation for c in found.configs} == {
        c.name: expected[c.name] for c in found.configs
    }
    without = await _describe(server, kind, name, version=version)
    assert {config.documentation for config in without.configs} == {None}


async def test_what_has_no_documentation_in_kafka(server):
    """Names that only plugins know, and throttles, have null; loggers an empty text, always."""
    await _set(server, BROKER, "1", foo_bar="secret", leader_replication_throttled_rate="7")
    found = await _describe(server, BROKER, "1", texts=True)
    assert {config.name for config in found.configs if config.documentation is None} == {
        "foo.bar",
        "leader.replication.throttled.rate",
    }
    for texts in (True, False):
        loggers = await _describe(server, LOGGER, "1", texts=texts)
        assert {config.documentation for config in loggers.configs} == {""}


@pytest.mark.parametrize(("keys", "count"), [(None, 37), ([], 37), (["segment.ms", "no"], 1)])
async def test_keys(server, keys, count):
    """No keys mean all of them; one that isn't known isn't missed."""
    assert len((await _describe(server, TOPIC, "orders", keys=keys)).configs) == count


async def test_loggers_are_configs_of_the_broker(server):
    """Kwire's, its rooms' and modules'; their levels are told in Kafka's words."""
    rows = _rows(await _describe(server, LOGGER, "1"))
    assert rows["root"][1] in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
    assert rows["root"][3] == 6
    assert {"kwire", "kwire.connection", "kwire.connection.acceptor", "kwire.log"} <= set(rows)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (METRICS, "", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_refusals(server, kind, name, code):
    """An error belongs to the resource it is about."""
    result = await _describe(server, kind, name)
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message

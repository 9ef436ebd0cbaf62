"""AlterConfigs and IncrementalAlterConfigs: what is answered is in force, and survives."""

import logging

import pytest

from kwire.errors import ErrorCode
from kwire.protocol.messages import alter_configs, incremental_alter_configs
from tests.support.in_process import running_server

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


async def _send(server, request, version, response_class):
    client = await server.connect()
    response = await client.request(request, version, response_class)
    await client.aclose()
    for result in response.responses:
        assert (result.error_code == ErrorCode.NONE) == (result.error_message is None)
    return [result.error_code for result in response.responses]


async def _alter(server, kind, name, *operations, version=1, validate_only=False, times=1):
    messages = incremental_alter_configs
    resource = messages.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            messages.AlterableConfig(name=config, config_operation=operation, value=value)
            for config, operation, value in operations
        ],
    )
    request = messages.IncrementalAlterConfigsRequest(
        resources=[resource] * times, validate_only=validate_only
    )
    return await _send(server, request, version, messages.IncrementalAlterConfigsResponse)


async def _replace(server, kind, name, *configs, version=2, validate_only=False, times=1):
    messages = alter_configs
    resource = messages.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[messages.AlterableConfig(name=n, value=v) for n, v in configs],
    )
    request = messages.AlterConfigsRequest(
        resources=[resource] * times, validate_only=validate_only
    )
    return await _send(server, request, version, messages.AlterConfigsResponse)


@pytest.mark.parametrize("version", range(2))
async def test_a_topics_config_is_in_force_when_it_is_answered(server, version):
    """The partition's log already has it."""
    segment = ("segment.bytes", SET, "2000000")
    assert await _alter(server, TOPIC, "orders", segment, version=version) == [0]
    assert server.broker.topic_settings("orders")["segment.bytes"] == 2_000_000
    assert server.broker.partition("orders", 1).log.config.segment_bytes == 2_000_000
    assert await _alter(server, TOPIC, "orders", ("segment.bytes", DELETE, None)) == [0]
    assert server.broker.partition("orders", 1).log.config.segment_bytes == 1 << 30


async def test_a_brokers_config_reaches_topics_that_do_not_set_it(server):
    """Through the settings that stand behind those of topics."""
    assert await _alter(server, BROKER, "", ("log.segment.bytes", SET, "3000000")) == [0]
    assert server.broker.partition("orders", 0).log.config.segment_bytes == 3_000_000
    assert await _alter(server, BROKER, "1", ("log.segment.bytes", SET, "4000000")) == [0]
    assert server.broker.partition("orders", 0).log.config.segment_bytes == 4_000_000


async def test_configs_survive_a_restart(tmp_path):
    """They are metadata, like the topics."""
    async with running_server(tmp_path) as server:
        assert await _alter(server, BROKER, "", ("message.max.bytes", SET, "777")) == [0]
        assert await _alter(server, BROKER, "1", ("foo", SET, "bar")) == [0]
        assert await _alter(server, GROUP, "g", ("consumer.session.timeout.ms", SET, "46000")) == [
            0
        ]
        before = server.broker.image.configs
    async with running_server(tmp_path) as server:
        assert server.broker.image.configs == before
        assert server.broker.setting("message.max.bytes") == 777


@pytest.mark.parametrize("version", range(3))
async def test_alter_configs_replaces(server, version):
    """What isn't named is no longer set."""
    first = [("segment.ms", "5"), ("preallocate", "true")]
    assert await _replace(server, TOPIC, "orders", *first, version=version) == [0]
    assert await _replace(server, TOPIC, "orders", ("segment.ms", "6"), version=version) == [0]
    assert server.broker.image.config(TOPIC, "orders") == {"segment.ms": "6"}


async def test_validate_only_changes_nothing(server):
    """Neither API does then."""
    revision = server.broker.image.revision
    change = ("segment.ms", SET, "5")
    assert await _alter(server, TOPIC, "orders", change, validate_only=True) == [0]
    assert await _replace(server, TOPIC, "orders", change[::2], validate_only=True) == [0]
    assert server.broker.image.revision == revision


async def test_a_resource_twice_is_refused_each_time(server):
    """Nobody can tell which of the two counts."""
    twice = [ErrorCode.INVALID_REQUEST] * 2
    assert await _alter(server, TOPIC, "orders", ("segment.ms", SET, "5"), times=2) == twice
    assert await _replace(server, TOPIC, "orders", ("segment.ms", "5"), times=2) == twice


@pytest.mark.parametrize(
    ("kind", "name", "config", "value", "code"),
    [
        (TOPIC, "nope", "segment.ms", "5", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "orders", "segment.ms", "x", ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", "foo", "5", ErrorCode.INVALID_CONFIG),
        (BROKER, "1", "node.id", "5", ErrorCode.INVALID_REQUEST),
        (BROKER, "2", "message.max.bytes", "5", ErrorCode.INVALID_REQUEST),
        (99, "x", "foo", "5", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_refusals(server, kind, name, config, value, code):
    """Each has Kafka's code and a message, in both APIs."""
    assert await _alter(server, kind, name, (config, SET, value)) == [code]
    assert await _replace(server, kind, name, (config, value)) == [code]


@pytest.fixture
def logger():
    """A logger of kwire, whose level is put back."""
    found = logging.getLogger("kwire.connection")
    level = found.level
    yield found
    found.setLevel(level)


async def test_levels_of_loggers(server, logger):
    """They are set and taken away; AlterConfigs can't, as in Kafka."""
    name = logger.name
    assert await _alter(server, LOGGER, "1", (name, SET, "FATAL"), validate_only=True) == [0]
    assert logger.level != logging.CRITICAL
    assert await _alter(server, LOGGER, "1", (name, SET, "FATAL")) == [0]
    assert logger.level == logging.CRITICAL
    assert await _alter(server, LOGGER, "1", (name, DELETE, None)) == [0]
    assert logger.level == logging.NOTSET
    assert await _replace(server, LOGGER, "1", (name, "INFO")) == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(
    ("name", "operation", "code"),
    [
        (("1", "kwire.connection", "LOUD"), SET, ErrorCode.INVALID_CONFIG),
        (("1", "nobody", "INFO"), SET, ErrorCode.INVALID_CONFIG),
        (("1", "root", None), DELETE, ErrorCode.INVALID_REQUEST),
        (("1", "root", "INFO"), APPEND, ErrorCode.INVALID_REQUEST),
        (("7", "root", "INFO"), SET, ErrorCode.INVALID_REQUEST),
        (("", "root", "INFO"), SET, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_levels_that_are_refused(server, name, operation, code):
    """An unknown logger or level is named in the message."""
    resource, logger_name, level = name
    assert await _alter(server, LOGGER, resource, (logger_name, operation, level)) == [code]


@pytest.mark.parametrize(
    ("kind", "name", "config", "value", "reason"),
    [
        (BROKER, "1", "sasl.kerberos.min.time.before.relogin", "58000", "without a login"),
        (BROKER, "1", "listener.name.a.ssl.keystore.type", "PEM", "without a login"),
        (BROKER, "", "background.threads", "9", "no effect"),
        (GROUP, "g", "streams.num.warmup.replicas", "3", "no warm-up tasks"),
        (METRICS, "m", "interval.ms", "5000", "nothing shows what clients push"),
    ],
)
@pytest.mark.parametrize("change", [_alter, _replace])
async def test_what_nothing_follows_is_kept_and_told(
    server, caplog, change, kind, name, config, value, reason
):
    """Stock admin suites count on a success, and whoever runs the broker finds a warning."""
    asked = (config, SET, value) if change is _alter else (config, value)
    with caplog.at_level(logging.WARNING):
        assert await change(server, kind, name, asked, validate_only=True) == [0]
        assert not caplog.records
        assert await change(server, kind, name, asked) == [0]
    [said] = [record.getMessage() for record in caplog.records]
    assert config in said
    assert reason in said
    assert server.broker.image.config(kind, name) == {config: value}


async def test_what_has_an_effect_is_not_told(server, caplog):
    """Nor that a config is no longer set, nor a name that could forge a line of the log."""
    caplog.set_level(logging.WARNING)
    assert await _alter(server, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")) == [0]
    assert await _alter(server, BROKER, "1", ("message.max.bytes", SET, "2000")) == [0]
    assert await _alter(server, TOPIC, "orders", ("segment.bytes", SET, "2000000")) == [0]
    assert not caplog.records
    forged = "listener.name.a.x\nERROR forged"
    assert await _alter(server, BROKER, "1", (forged, SET, "y")) == [0]
    assert await _alter(server, BROKER, "1", (forged, DELETE, None)) == [0]
    [record] = caplog.records
    assert "\n" not in record.getMessage()

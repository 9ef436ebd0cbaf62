"""AlterClientQuotas and DescribeClientQuotas, and what counts changes of metadata (KIP-599)."""

import pytest

from kwire.clock import Clock
from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.errors import ErrorCode
from kwire.protocol.messages.create_topics import (
    CreateTopicsResponse,
)
from kwire.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tests.dispatch.test_metering import alter
from tests.support.in_process import running_server
from tests.support.requests import create_topics_request

USER = (("user", "ANONYMOUS"),)


async def _described(raw, kind="user", match_type=2, name=None):
    part = ComponentData(entity_type=kind, match_type=match_type, match=name)
    request = DescribeClientQuotasRequest(components=[part])
    answer = await raw.request(request, 1, DescribeClientQuotasResponse)
    assert answer.error_code == 0
    return [
        ([(one.entity_type, one.entity_name) for one in entry.entity], entry.values[0].value)
        for entry in answer.entries
    ]


async def test_quotas_outlive_the_broker(tmp_path):
    for _ in range(2):
        async with running_server(tmp_path) as server:
            raw = await server.connect()
            if server.broker.image.client_quotas:
                assert await _described(raw) == [([("user", "ANONYMOUS")], 1e9)]
                assert server.broker.quotas is not None
            else:
                await alter(server, producer_byte_rate=1e9)


async def test_very_many_entities_are_all_described(tmp_path):
    async with running_server(tmp_path) as server:
        for number in range(300):
            await alter(server, (("client-id", f"app-{number}"),), request_percentage=1.0 + number)
        raw = await server.connect()
        assert len(await _described(raw, "client-id")) == 300
        assert await _described(raw, "client-id", 0, "app-7") == [([("client-id", "app-7")], 8.0)]


@pytest.mark.parametrize(("version", "error"), [(5, 0), (6, ErrorCode.THROTTLING_QUOTA_EXCEEDED)])
async def test_a_topic_beyond_the_quota_is_refused_or_slows_the_client_down(
    tmp_path, version, error
):
    """A topic that can't be created takes no tokens."""

    async def create(client, name, partitions):
        request = create_topics_request(name, partitions=partitions)
        return await client.request(request, version, CreateTopicsResponse)

    async with running_server(tmp_path, clock=Clock(steady_ms=lambda: 0)) as server:
        await alter(server, controller_mutation_rate=1.0)
        raw = await server.connect()
        bad = await create(raw, "not/valid", 100)
        assert bad.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert bad.throttle_time_ms == 0
        first = await create(raw, "first", 11)
        assert (first.topics[0].error_code, first.throttle_time_ms) == (0, 0)
        lent = await create(raw, "lent", 3)
        assert lent.topics[0].error_code == 0
        assert lent.throttle_time_ms == (0 if error else 3000)
        other = await server.connect()  # the first one may have to wait
        last = await create(other, "last", 1)
        assert last.topics[0].error_code == error
        assert last.throttle_time_ms == (3000 if error else 4000)
        assert ("last" in server.broker.image.topics_by_name) == (not error)


def test_a_java_class_for_quotas_stops_the_start():
    settings = {"client.quota.callback.class": "org.example.Quotas"}
    with pytest.raises(ConfigError, match=r"client\.quota\.callback\.class"):
        BrokerConfig.load(settings)

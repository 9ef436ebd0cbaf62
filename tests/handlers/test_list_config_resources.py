"""ListConfigResources: which resources have configs."""

import pytest

from kwire.errors import ErrorCode
from kwire.metadata.changes import ConfigChanged
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TOPICS = [(2, "__consumer_offsets"), (2, "orders")]
BROKERS = [(4, "1")]
LOGGERS = [(8, "1")]
METRICS = [(16, "m")]
GROUPS = [(32, "g")]


@pytest.fixture
async def resources(server):
    """Lists resources as (type, name), sorted; a group and a subscription have configs."""
    await server.broker.commit(
        lambda image: [
            ConfigChanged(ConfigResourceType.GROUP, "g", "consumer.session.timeout.ms", "46000"),
            ConfigChanged(ConfigResourceType.CLIENT_METRICS, "m", "interval.ms", "1000"),
        ]
    )
    client = await server.connect()

    async def send(*types, version=1):
        request = ListConfigResourcesRequest(resource_types=list(types))
        response = await client.request(request, version, ListConfigResourcesResponse)
        found = [(r.resource_type, r.resource_name) for r in response.config_resources]
        return response.error_code, sorted(found)

    return send


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((), TOPICS + BROKERS + LOGGERS + METRICS + GROUPS),
        ((2,), TOPICS),
        ((4, 8), BROKERS + LOGGERS),
        ((32,), GROUPS),
        ((16,), METRICS),
    ],
)
async def test_by_type(resources, types, expected):
    """No type means all of them; groups and subscriptions are those with configs."""
    assert await resources(*types) == (ErrorCode.NONE, expected)


async def test_version_0_knows_client_metrics_alone(resources):
    """It was ListClientMetricsResources then."""
    assert await resources(version=0) == (ErrorCode.NONE, METRICS)


async def test_a_type_that_is_not_known(resources):
    """The whole request fails."""
    assert await resources(2, 99) == (ErrorCode.UNSUPPORTED_VERSION, [])

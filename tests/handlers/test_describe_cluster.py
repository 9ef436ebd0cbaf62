"""DescribeCluster: brokers at the address the client knows."""

import pytest

from kwire.errors import ErrorCode
from kwire.handlers.lib.context import CLUSTER_OPERATIONS, NOT_ASKED
from kwire.metadata.changes import BrokerRegistered
from kwire.metadata.image import BrokerImage
from kwire.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from tests.support.in_process import running_server


async def _describe(server, version=2, **fields):
    client = await server.connect()
    request = DescribeClusterRequest(**fields)
    response = await client.request(request, version, DescribeClusterResponse)
    await client.aclose()
    return response


@pytest.mark.parametrize("version", range(3))
async def test_a_client_is_told_what_it_dialed(server, version):
    """Cluster id, controller, and the broker's address as this client sees it."""
    response = await _describe(server, version)
    assert response.cluster_id == server.broker.cluster_id
    assert response.controller_id == 1
    (broker,) = response.brokers
    assert (broker.broker_id, broker.host, broker.port) == (1, server.host, server.port)
    assert not broker.is_fenced
    assert response.cluster_authorized_operations == NOT_ASKED


async def test_advertised_listeners_count_first(tmp_path):
    """What is advertised is told to everybody; so is the rack."""
    settings = {"advertised.listeners": "PLAINTEXT://kafka.example:1234", "broker.rack": "r1"}
    async with running_server(tmp_path, settings) as server:
        (broker,) = (await _describe(server)).brokers
    assert (broker.host, broker.port, broker.rack) == ("kafka.example", 1234, "r1")


async def test_operations_when_asked(server):
    """Without an authorizer everything that a cluster allows."""
    response = await _describe(server, include_cluster_authorized_operations=True)
    assert response.cluster_authorized_operations == CLUSTER_OPERATIONS


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
async def test_only_brokers_are_described(server, endpoint_type, code):
    """There is no listener of the controller."""
    response = await _describe(server, endpoint_type=endpoint_type)
    assert (response.error_code, response.brokers) == (code, [])
    assert response.error_message


@pytest.mark.parametrize(("host", "told"), [("0.0.0.0", None), ("10.0.0.7", "10.0.0.7")])
async def test_workers_on_every_interface_are_at_the_host_that_the_client_dialed(
    tmp_path, host, told
):
    """No client can dial 0.0.0.0; another host is told as it is."""
    async with running_server(tmp_path) as server:
        other = BrokerImage(2, None, (("PLAINTEXT", host, 9093),))
        await server.broker.commit(lambda _: [BrokerRegistered(other)])
        _, second = (await _describe(server)).brokers
    assert (second.host, second.port) == (told or server.host, 9093)

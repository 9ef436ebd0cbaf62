"""ApiVersions, the first request of every client."""

import pytest

from compat_tests.kafka_version import VERSION
from compat_tests.raw_client import RawConnection
from kwire.errors import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest

CHECKS_SINCE = 5
NO_NODE = -1


@pytest.mark.skipif(VERSION == "4.3.1", reason="Apache Kafka checks this since 4.4")
def test_a_client_says_which_broker_it_means(bootstrap: str) -> None:
    """Another broker, or one of another cluster, sends it back to its bootstrap servers."""
    connection = RawConnection(bootstrap.split(",")[0])
    cluster = connection.ask(DescribeClusterRequest(), 2)
    port = int(bootstrap.split(",")[0].rpartition(":")[2])
    [node] = [broker.broker_id for broker in cluster.brokers if broker.port == port]
    answers = {
        (cluster.cluster_id, node): ErrorCode.NONE,
        (None, NO_NODE): ErrorCode.NONE,
        (cluster.cluster_id, node + 100): ErrorCode.REBOOTSTRAP_REQUIRED,
        ("another", node): ErrorCode.REBOOTSTRAP_REQUIRED,
        ("", node): ErrorCode.REBOOTSTRAP_REQUIRED,
        (cluster.cluster_id, NO_NODE): ErrorCode.INVALID_REQUEST,
        (None, node): ErrorCode.INVALID_REQUEST,
    }
    for (cluster_id, node_id), code in answers.items():
        request = ApiVersionsRequest(
            client_software_name="compat",
            client_software_version="1",
            cluster_id=cluster_id,
            node_id=node_id,
        )
        answer = connection.ask(request, CHECKS_SINCE)
        assert answer.error_code == code, (cluster_id, node_id)
        assert bool(answer.api_keys) == (code is ErrorCode.NONE)
    connection.close()

"""DescribeCluster (API key 60): lists the brokers or the controllers of the cluster.

Versions 0 to 2, flexible. Changes by version:

- 1: the request and the response gain ``endpoint_type``; KIP-919.
- 2: the request gains ``include_fenced_brokers``; the response gains
  ``DescribeClusterBroker.is_fenced``; the response may list fenced brokers (KIP-1073).
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
)


class DescribeClusterRequest(Request, key=60, versions=(0, 2), flexible=0):
    """Lists the brokers or the controllers of the cluster."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(since=1, default=1)
    include_fenced_brokers: bool = boolean(since=2)


class DescribeClusterBroker(Nested):
    """An element of ``brokers`` in ``DescribeClusterResponse``."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=True, default=None)
    is_fenced: bool = boolean(since=2)


class DescribeClusterResponse(Response, key=60, versions=(0, 2), flexible=0):
    """The answer to ``DescribeClusterRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    endpoint_type: int = int8(since=1, default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)

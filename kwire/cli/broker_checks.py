"""What ``kwire health`` asks each broker, and which registered brokers are not there."""

from collections.abc import Iterable
from typing import NamedTuple

import trio

from kwire.cli.output import shown
from kwire.client.cluster import Cluster
from kwire.client.errors import ClientError, NotSupported
from kwire.client.peer import Peer
from kwire.errors import ErrorCode
from kwire.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kwire.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)

METADATA_TOPIC = "__cluster_metadata"
FENCED_SINCE = 2
CORDONED_SINCE = 5


class BrokerView(NamedTuple):
    """What one broker has answered; a text is empty if nothing is wrong."""

    silence: str = ""
    """Why the broker doesn't answer."""
    loss: str = ""
    """Why the broker doesn't reach the metadata, with its node id."""
    has_right: bool = True
    """Whether the user may ask about the metadata."""
    cordoned: str = ""
    """Which of its data directories get no new replicas, with its node id (KIP-1066)."""


def quorum_request() -> DescribeQuorumRequest:
    """The question about the cluster's metadata."""
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return DescribeQuorumRequest(topics=[topic])


async def look_at(cluster: Cluster, nodes: Iterable[int]) -> list[BrokerView]:
    """Ask brokers by node id, all at the same time."""
    views: dict[int, BrokerView] = {}

    async def one(node: int) -> None:
        views[node] = await _view(cluster, node)

    async with trio.open_nursery() as nursery:
        for node in nodes:
            nursery.start_soon(one, node)
    return [views[node] for node in sorted(views)]


async def _view(cluster: Cluster, node: int) -> BrokerView:
    try:
        peer = await cluster.peer(node)
        await peer.connected()
    except ClientError as error:
        return BrokerView(silence=str(error))
    view = await _metadata_view(peer, node)
    if view.loss or not view.has_right:
        return view
    return view._replace(cordoned=await _cordoned(peer, node))


async def _metadata_view(peer: Peer, node: int) -> BrokerView:
    try:
        answer = await peer.ask(quorum_request(), DescribeQuorumResponse)
    except NotSupported:  # Apache Kafka with ZooKeeper
        return BrokerView()
    except ClientError as error:  # Apache Kafka without a quorum of controllers is silent
        return BrokerView(loss=f"broker {node}: {error.text}")
    code, message = answer.error_code, answer.error_message
    if not code and answer.topics and answer.topics[0].partitions:
        code = answer.topics[0].partitions[0].error_code
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return BrokerView(has_right=False)
    if code:
        return BrokerView(loss=f"broker {node}: {message or ErrorCode(code).name}")
    return BrokerView()


async def _cordoned(peer: Peer, node: int) -> str:
    """What a broker says of cordoned data directories; nothing without the right to ask."""
    try:
        _, newest = (await peer.served()).ranges.get(DescribeLogDirsRequest.API_KEY, (0, 0))
        if newest < CORDONED_SINCE:  # before Kafka 4.3
            return ""
        answer = await peer.ask(DescribeLogDirsRequest(topics=[]), DescribeLogDirsResponse)
    except ClientError:
        return ""
    cordoned = [one.log_dir for one in answer.results if one.is_cordoned]
    if not cordoned:
        return ""
    if len(cordoned) == len(answer.results):
        return f"broker {node}, all its data directories"
    return f"broker {node}, {' and '.join(cordoned)}"


async def fenced_brokers(cluster: Cluster) -> list[str]:
    """A line for each registered broker that is fenced, and so isn't in Metadata."""
    peer = await cluster.any_peer()
    _, newest = (await peer.served()).ranges.get(DescribeClusterRequest.API_KEY, (0, 0))
    if newest < FENCED_SINCE:  # before Kafka 4.0
        return []
    request = DescribeClusterRequest(include_fenced_brokers=True)
    answer = await peer.ask(request, DescribeClusterResponse)
    return [
        f"broker {one.broker_id} at {shown((one.host, one.port))} is registered but fenced (down, "
        "cut off, or starting)"
        for one in sorted(answer.brokers, key=lambda one: one.broker_id)
        if one.is_fenced
    ]

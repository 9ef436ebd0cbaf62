"""DescribeCluster: the brokers, the controller, the cluster's id.

Behavior: the answer lists brokers. kwire doesn't serve the controllers' own listener, so endpoint
type 2 is MISMATCHED_ENDPOINT_TYPE, as with any broker of Kafka.
"""

from typing import TYPE_CHECKING, Any

from kwire.errors import ErrorCode
from kwire.handlers.lib.advertised_listeners import advertised_brokers
from kwire.handlers.lib.context import CLUSTER_OPERATIONS, NOT_ASKED, RequestContext
from kwire.handlers.lib.rights import Serve, right
from kwire.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

BROKERS, CONTROLLERS = 1, 2


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Describe the cluster."""
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but wanted one of "
            "type CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    broker = context.broker
    ask = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=node_id, host=host, port=port, rack=rack, is_fenced=is_fenced
            )
            for node_id, host, port, rack, is_fenced in advertised_brokers(
                context, with_fenced=request.include_fenced_brokers
            )
        ],
        cluster_authorized_operations=CLUSTER_OPERATIONS if ask else NOT_ASKED,
    )


@right("nothing; DESCRIBE on the cluster shows what the client may do to it")
async def _tell_operations(
    request: DescribeClusterRequest, rights: "Authorization", serve: Serve
) -> Any:
    response: DescribeClusterResponse = await serve(request)
    if not response.error_code:
        rights.tell_cluster_operations(response)
    return response


RIGHTS = (_tell_operations,)

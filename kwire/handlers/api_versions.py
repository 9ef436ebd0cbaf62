"""ApiVersions: the APIs, versions and features of this broker.

Behavior: this is the first request of every client. A request of an unknown version is answered in
version 0 (``of_unknown_version``). The features are those that kwire supports. From version 5 on, a
client may say which broker of which cluster it means to ask; another one answers
REBOOTSTRAP_REQUIRED, after which the client begins again with its bootstrap servers (KIP-1242).
"""

import re

from kwire.broker.broker import Broker
from kwire.errors import ErrorCode
from kwire.handlers import advertised_versions
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import everybody
from kwire.metadata.features import SUPPORTED
from kwire.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_SINCE = 3
_LEVEL_ZERO_SINCE = 4
_NO_NODE = -1

TELEMETRY_KEYS = (71, 72)
"""Advertised only while a broker with an HTTP port has a client-metrics subscription: librdkafka
asks for its own as soon as it may, and writes a line about the answer to its program's stderr."""


RIGHTS = (everybody("a client asks before it can know anything"),)


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    """Answer with all APIs and features."""
    if context.api_version >= _SOFTWARE_SINCE and not _software_is_valid(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if wrong := _wrong_broker(request, context):
        return ApiVersionsResponse(error_code=wrong)
    software = context.connection.software
    if software is not None:
        software.name, software.version = (
            request.client_software_name,
            request.client_software_version,
        )
    broker = context.broker
    has_telemetry = takes_telemetry(broker) and broker.client_metrics.has_subscriptions
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=first, max_version=last)
            for key, first, last in advertised_versions()
            if has_telemetry or key not in TELEMETRY_KEYS
        ],
        supported_features=[
            # Older versions cannot carry a lowest level of 0, so they leave such features out.
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in SUPPORTED.items()
            if low > 0 or context.api_version >= _LEVEL_ZERO_SINCE
        ],
        finalized_features_epoch=context.broker.image.revision,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in context.broker.image.features.items()
        ],
    )


def _wrong_broker(request: ApiVersionsRequest, context: RequestContext) -> ErrorCode:
    """NONE if the client asks this broker, or doesn't say which it asks. Who hasn't logged in yet
    isn't told whether it is this one, as in Kafka.
    """
    cluster_id, node_id = request.cluster_id, request.node_id
    if (cluster_id is None) != (node_id == _NO_NODE):
        return ErrorCode.INVALID_REQUEST
    login = context.connection.login
    if cluster_id is None or (login is not None and not login.is_open):
        return ErrorCode.NONE
    broker = context.broker
    if cluster_id == broker.cluster_id and node_id == broker.node_id:
        return ErrorCode.NONE
    return ErrorCode.REBOOTSTRAP_REQUIRED


def takes_telemetry(broker: Broker) -> bool:
    """Whether the broker would show metrics of clients: on its HTTP port."""
    return bool(broker.setting("kwire.http.listen"))


def of_unknown_version(context: RequestContext) -> ApiVersionsResponse:
    """The response, to be sent in version 0, to a version of ApiVersions that kwire lacks."""
    response = handle(ApiVersionsRequest(), context)
    response.error_code = ErrorCode.UNSUPPORTED_VERSION
    return response


def _software_is_valid(request: ApiVersionsRequest) -> bool:
    return bool(
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    )

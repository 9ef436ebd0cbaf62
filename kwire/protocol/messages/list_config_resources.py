"""ListConfigResources (API key 74): lists the resources that have settings.

Versions 0 to 1, flexible. Changes by version:

- 0: the API lists client metrics resources only (KIP-714).
- 1: the request gains ``resource_types``; the response gains ``ConfigResource.resource_type``;
  KIP-1142.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int8,
    int16,
    int32,
    string,
)


class ListConfigResourcesRequest(Request, key=74, versions=(0, 1), flexible=0):
    """Lists the resources that have settings."""

    resource_types: list[int] = array(int8, since=1)


class ConfigResource(Nested):
    """An element of ``config_resources`` in ``ListConfigResourcesResponse``."""

    resource_name: str = string()
    resource_type: int = int8(since=1, default=16, ignorable=True)


class ListConfigResourcesResponse(Response, key=74, versions=(0, 1), flexible=0):
    """The answer to ``ListConfigResourcesRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)

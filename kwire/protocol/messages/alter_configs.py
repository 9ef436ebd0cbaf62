"""AlterConfigs (API key 33): replaces all settings of a resource.

Versions 0 to 2, flexible from 2. Changes by version:

- 1: the broker sends the response before it throttles the client (KIP-219).
- 2: flexible encoding.
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


class AlterableConfig(Nested):
    """An element of ``configs`` in ``AlterConfigsResource``."""

    name: str = string()
    value: str | None = string(nullable=True)


class AlterConfigsResource(Nested):
    """An element of ``resources`` in ``AlterConfigsRequest``."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class AlterConfigsRequest(Request, key=33, versions=(0, 2), flexible=2):
    """Replaces all settings of a resource."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Nested):
    """An element of ``responses`` in ``AlterConfigsResponse``."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resource_type: int = int8()
    resource_name: str = string()


class AlterConfigsResponse(Response, key=33, versions=(0, 2), flexible=2):
    """The answer to ``AlterConfigsRequest``."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)

"""IncrementalAlterConfigs (API key 44): changes some settings of a resource and leaves the others.

Versions 0 to 1, flexible from 1. Changes by version:

- 1: flexible encoding.
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
    config_operation: int = int8()
    value: str | None = string(nullable=True)


class AlterConfigsResource(Nested):
    """An element of ``resources`` in ``IncrementalAlterConfigsRequest``."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class IncrementalAlterConfigsRequest(Request, key=44, versions=(0, 1), flexible=1):
    """Changes some settings of a resource and leaves the others."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Nested):
    """An element of ``responses`` in ``IncrementalAlterConfigsResponse``."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resource_type: int = int8()
    resource_name: str = string()


class IncrementalAlterConfigsResponse(Response, key=44, versions=(0, 1), flexible=1):
    """The answer to ``IncrementalAlterConfigsRequest``."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)

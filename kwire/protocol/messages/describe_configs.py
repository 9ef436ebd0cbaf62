"""DescribeConfigs (API key 32): shows settings, where they come from and what they override.

Versions 1 to 4, flexible from 4. Changes by version:

- 1: the response may list synonyms (KIP-226).
- 2: the broker sends the response before it throttles the client (KIP-219).
- 3: the request gains ``include_documentation``; the response gains
  ``DescribeConfigsResourceResult.config_type`` and
  ``DescribeConfigsResourceResult.documentation``; KIP-569.
- 4: flexible encoding.
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


class DescribeConfigsResource(Nested):
    """An element of ``resources`` in ``DescribeConfigsRequest``."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, nullable=True)


class DescribeConfigsRequest(Request, key=32, versions=(1, 4), flexible=4):
    """Shows settings, where they come from and what they override."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean(since=3)


class DescribeConfigsSynonym(Nested):
    """An element of ``synonyms`` in ``DescribeConfigsResourceResult``."""

    name: str = string()
    value: str | None = string(nullable=True)
    source: int = int8()


class DescribeConfigsResourceResult(Nested):
    """An element of ``configs`` in ``DescribeConfigsResult``."""

    name: str = string()
    value: str | None = string(nullable=True)
    read_only: bool = boolean()
    config_source: int = int8(default=-1, ignorable=True)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, ignorable=True)
    config_type: int = int8(since=3, ignorable=True)
    documentation: str | None = string(since=3, nullable=True, ignorable=True)


class DescribeConfigsResult(Nested):
    """An element of ``results`` in ``DescribeConfigsResponse``."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


class DescribeConfigsResponse(Response, key=32, versions=(1, 4), flexible=4):
    """The answer to ``DescribeConfigsRequest``."""

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)

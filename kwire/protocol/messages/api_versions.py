"""ApiVersions (API key 18): lists a broker's APIs, their versions, and the features of the cluster.

Versions 0 to 5, flexible from 3. Changes by version:

- 1: the response gains ``throttle_time_ms``.
- 2: the broker sends the response before it throttles the client (KIP-219).
- 3: flexible encoding; the request gains ``client_software_name`` and
  ``client_software_version``; the response gains ``supported_features``,
  ``finalized_features_epoch``, ``finalized_features`` and ``zk_migration_ready``; KIP-511; the
  response lists features (KIP-584).
- 4: features may have 0 as their lowest version.
- 5: the request gains ``cluster_id`` and ``node_id``, of the broker that the client means to ask;
  the response may carry the error REBOOTSTRAP_REQUIRED (KIP-1242).
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
)


class ApiVersionsRequest(Request, key=18, versions=(0, 5), flexible=3):
    """Lists a broker's APIs, their versions, and the features of the cluster."""

    client_software_name: str = string(since=3, ignorable=True)
    client_software_version: str = string(since=3, ignorable=True)
    cluster_id: str | None = string(since=5, nullable=True, default=None, ignorable=True)
    node_id: int = int32(since=5, default=-1, ignorable=True)


class ApiVersion(Nested):
    """An element of ``api_keys`` in ``ApiVersionsResponse``."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Nested):
    """An element of ``supported_features`` in ``ApiVersionsResponse``."""

    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


class FinalizedFeatureKey(Nested):
    """An element of ``finalized_features`` in ``ApiVersionsResponse``."""

    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


class ApiVersionsResponse(Response, key=18, versions=(0, 5), flexible=3):
    """The answer to ``ApiVersionsRequest``."""

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(since=1, ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, since=3, tag=0, ignorable=True
    )
    finalized_features_epoch: int = int64(since=3, default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, since=3, tag=2, ignorable=True
    )
    zk_migration_ready: bool = boolean(since=3, tag=3, ignorable=True)

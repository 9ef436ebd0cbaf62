"""UpdateFeatures (API key 57): changes the finalised features of the cluster.

Versions 0 to 2, flexible. Changes by version:

- 1: the request loses ``FeatureUpdateKey.allow_downgrade``; the request gains
  ``FeatureUpdateKey.upgrade_type`` and ``validate_only``.
- 2: the response loses ``results``.
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


class FeatureUpdateKey(Nested):
    """An element of ``feature_updates`` in ``UpdateFeaturesRequest``."""

    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean(until=0)
    upgrade_type: int = int8(since=1, default=1)


class UpdateFeaturesRequest(Request, key=57, versions=(0, 2), flexible=0):
    """Changes the finalised features of the cluster."""

    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(since=1)


class UpdatableFeatureResult(Nested):
    """An element of ``results`` in ``UpdateFeaturesResponse``."""

    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


class UpdateFeaturesResponse(Response, key=57, versions=(0, 2), flexible=0):
    """The answer to ``UpdateFeaturesRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, until=1, ignorable=True)

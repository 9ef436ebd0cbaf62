"""UpdateFeatures changes what ApiVersions tells, in every version of the request."""

from kwire.errors import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.support.in_process import running_server

SAFE_DOWNGRADE = 2


async def _levels(client):
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    answer = await client.request(request, 4, ApiVersionsResponse)
    return {feature.name: feature.max_version_level for feature in answer.finalized_features}


async def _update(client, version, level, **fields):
    key = FeatureUpdateKey(feature="transaction.version", max_version_level=level, **fields)
    request = UpdateFeaturesRequest(feature_updates=[key])
    return await client.request(request, version, UpdateFeaturesResponse)


async def test_levels_go_down_and_up(tmp_path):
    async with running_server(tmp_path) as server:
        client = await server.connect()
        refused = await _update(client, 2, 0)
        assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert (await _levels(client))["transaction.version"] == 2
        assert not (await _update(client, 2, 0, upgrade_type=SAFE_DOWNGRADE)).error_code
        assert "transaction.version" not in await _levels(client)
        raised = await _update(client, 1, 1)
        assert [(r.feature, r.error_code) for r in raised.results] == [("transaction.version", 0)]
        refused = await _update(client, 1, 9)
        assert (refused.error_code, refused.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
        assert not (await _update(client, 0, 0, allow_downgrade=True)).error_code
        assert "transaction.version" not in await _levels(client)


async def test_a_name_as_long_as_any_is_answered(tmp_path):
    """The message names the beginning of it."""
    async with running_server(tmp_path) as server:
        client = await server.connect()
        key = FeatureUpdateKey(feature="x" * 32_000, max_version_level=1)
        request = UpdateFeaturesRequest(feature_updates=[key])
        refused = await client.request(request, 2, UpdateFeaturesResponse)
        assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "x" * 200 in refused.error_message


async def test_validating_changes_nothing(tmp_path):
    async with running_server(tmp_path) as server:
        client = await server.connect()
        key = FeatureUpdateKey(
            feature="transaction.version", max_version_level=1, upgrade_type=SAFE_DOWNGRADE
        )
        request = UpdateFeaturesRequest(feature_updates=[key], validate_only=True)
        assert not (await client.request(request, 2, UpdateFeaturesResponse)).error_code
        assert (await _levels(client))["transaction.version"] == 2

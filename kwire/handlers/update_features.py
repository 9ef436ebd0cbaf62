"""UpdateFeatures: changes the levels of the cluster's features, all levels of a request or none.

Behavior: ``validate_only`` changes nothing. Before version 1, a flag allows a downgrade. Up to
version 1 the answer names every feature, unless the request as a whole has an error.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import ALTER, once
from kwire.handlers.lib.waiting import in_task
from kwire.metadata.features import FeatureUpdate, UpgradeType, update_features
from kwire.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE_TYPE_SINCE = 1
RESULTS_UNTIL = 1

MOST_UPDATES = 100
"""Far above the number of features: a longer request repeats a feature or names an unknown one."""


RIGHTS = (once(ALTER),)


@in_task
async def handle(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    """Change the levels, or answer with an error."""
    response = UpdateFeaturesResponse(error_message=None)
    updates: list[FeatureUpdate] = []
    try:
        updates = _updates(request, context.api_version)
        if request.validate_only:
            update_features(context.broker.image, updates)
        else:
            await context.commit(lambda image: update_features(image, updates))
    except KafkaError as error:
        response.error_code, response.error_message = error.code, error.message
    if context.api_version <= RESULTS_UNTIL and not response.error_code:
        response.results = [
            UpdatableFeatureResult(feature=update.name, error_message=None) for update in updates
        ]
    return response


def _updates(request: UpdateFeaturesRequest, version: int) -> list[FeatureUpdate]:
    """The updates; KafkaError if a feature is named more than once."""
    wanted = request.feature_updates
    names = {update.feature for update in wanted[:MOST_UPDATES]}
    if len(names) < len(wanted):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A feature is named more than once.")
    return [_update(update, version) for update in wanted]


def _update(update: FeatureUpdateKey, version: int) -> FeatureUpdate:
    upgrade_type = update.upgrade_type
    if version < UPGRADE_TYPE_SINCE:
        allowed = update.allow_downgrade
        upgrade_type = UpgradeType.SAFE_DOWNGRADE if allowed else UpgradeType.UPGRADE
    return FeatureUpdate(update.feature, update.max_version_level, upgrade_type)

"""Features: the levels that kwire supports, and changes of the cluster's levels (KIP-584).

Rules:

- A new cluster begins with the highest levels. A level of 0 is the same as no level.
- A higher level is an upgrade, a lower one a downgrade. A request has to name the one it means.
- The controller makes all updates of a request, or none.

Source: FeatureControlManager, QuorumFeatures of Kafka.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, FeatureLevelChanged
from kwire.metadata.image import MetadataImage

GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"
METADATA_VERSION = "metadata.version"


class FeatureRange(NamedTuple):
    """The lowest and the highest level of a feature."""

    min_level: int
    max_level: int


SUPPORTED: Mapping[str, FeatureRange] = {
    GROUP_VERSION: FeatureRange(0, 1),
    "kraft.version": FeatureRange(0, 1),
    METADATA_VERSION: FeatureRange(7, 30),
    TRANSACTION_VERSION: FeatureRange(0, 2),
}
"""The features and levels that kwire supports; metadata.version 30 is that of Kafka 4.3."""

FIXED = frozenset({"kraft.version", METADATA_VERSION})
"""Features that no request changes: kwire's metadata has one format, and there is no quorum."""


class UpgradeType(IntEnum):
    """The kind of change that a client asks for; Kafka's numbers."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A level that a client asks for; ``upgrade_type`` is the number that the client sent."""

    name: str
    level: int
    upgrade_type: int


def initial_features() -> list[Change]:
    """The changes that set the feature levels of a new cluster."""
    return [FeatureLevelChanged(name, levels.max_level) for name, levels in SUPPORTED.items()]


def update_features(image: MetadataImage, updates: Iterable[FeatureUpdate]) -> list[Change]:
    """The changes that set new feature levels; KafkaError (INVALID_UPDATE_VERSION) if refused."""
    changes: list[Change] = []
    for update in updates:
        problem = _problem(image, update)
        if problem is not None:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid update version {update.level} for feature {update.name}. {problem}",
            )
        if image.feature_level(update.name) != update.level:
            changes.append(FeatureLevelChanged(update.name, update.level))
    return changes


def _problem(image: MetadataImage, update: FeatureUpdate) -> str | None:
    """The reason why the controller refuses an update; None where it accepts the update."""
    levels = SUPPORTED.get(update.name)
    current = image.feature_level(update.name)
    is_upgrade = update.upgrade_type == UpgradeType.UPGRADE
    if update.upgrade_type not in set(UpgradeType):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    if levels is None:
        return "Local controller does not support this feature."
    if update.level != 0 and not levels.min_level <= update.level <= levels.max_level:
        return f"Local controller only supports versions {levels.min_level}-{levels.max_level}"
    if update.level < current and is_upgrade:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if update.level > current and not is_upgrade:
        return "Can't downgrade to a newer version."
    if update.name in FIXED and update.level != current:
        return "The level of this feature is fixed."
    return None

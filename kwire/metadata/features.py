"""Features: which levels this kwire supports, and how the cluster's are changed (KIP-584).

Rules:

- A new cluster begins with the highest levels. A level of 0 is the same as no level.
- A higher level is an upgrade, a lower one a downgrade, and must be asked for as what it is.
- All updates of a request are made, or none.

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
    """The lowest and the highest level."""

    min_level: int
    max_level: int


SUPPORTED: Mapping[str, FeatureRange] = {
    GROUP_VERSION: FeatureRange(0, 1),
    "kraft.version": FeatureRange(0, 1),
    METADATA_VERSION: FeatureRange(7, 30),
    TRANSACTION_VERSION: FeatureRange(0, 2),
}
"""The features that are true of kwire; metadata.version 30 is 4.3."""

FIXED = frozenset({"kraft.version", METADATA_VERSION})
"""What no request changes: kwire's metadata has one format, and there is no quorum."""


class UpgradeType(IntEnum):
    """What an update is meant as; Kafka's numbers."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The wish for a level; ``upgrade_type`` as the client sent it."""

    name: str
    level: int
    upgrade_type: int


def initial_features() -> list[Change]:
    """The changes with which a new cluster begins."""
    return [FeatureLevelChanged(name, levels.max_level) for name, levels in SUPPORTED.items()]


def update_features(image: MetadataImage, updates: Iterable[FeatureUpdate]) -> list[Change]:
    """The changes that bring features to other levels; KafkaError (INVALID_UPDATE_VERSION)."""
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
    """Why a feature can't be brought to a level; None where it can."""
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

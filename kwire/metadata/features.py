"""Features: the levels that kwire supports, and changes of the cluster's levels (KIP-584).

Rules:

- A new cluster begins with the highest levels. A level of 0 is the same as no level.
- A higher level is an upgrade, a lower one a downgrade. A request has to name the one it means.
- The controller makes all updates of a request, or none.
- A level is raised only if every registered broker supports it. A broker that lacks a level that
  the cluster has doesn't start.
- ``metadata.version`` and ``kraft.version`` are only raised: nothing in kwire depends on them, so
  they say which release the cluster is at. Eligible leader replicas are always on.
- A request that raises the cluster to a release of Kafka (it names ``metadata.version``) has the
  levels of all features of the release.
- ``kwire.changes`` is the level of the kinds of changes (``kwire.metadata.changes``). No broker can
  follow a log with a kind that it doesn't know. So a new kind raises the highest level here and is
  written only while the cluster has this level. Level 2 has partitions with several replicas,
  SCRAM credentials, delegation tokens, ACLs and client quotas. It can't be lowered while the
  metadata has one of these.

Source: FeatureControlManager, QuorumFeatures of Kafka.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, FeatureLevelChanged
from kwire.metadata.image import BrokerImage, MetadataImage

GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"
TRANSACTION_VERSION = "transaction.version"
METADATA_VERSION = "metadata.version"
ELR_VERSION = "eligible.leader.replicas.version"
KRAFT_VERSION = "kraft.version"
CHANGES_VERSION = "kwire.changes"

REPLICATION_LEVEL = 2
"""The level of ``kwire.changes`` from which on a partition may have several replicas."""

CREDENTIALS_LEVEL = 2
"""The level from which on the metadata may have SCRAM credentials."""

TOKENS_LEVEL = 2
"""The level from which on the metadata may have delegation tokens."""

ACLS_LEVEL = 2
"""The level from which on the metadata may have ACLs."""

QUOTAS_LEVEL = 2
"""The level from which on the metadata may have client quotas."""


class FeatureRange(NamedTuple):
    """The lowest and the highest level of a feature."""

    min_level: int
    max_level: int


SUPPORTED: Mapping[str, FeatureRange] = {
    GROUP_VERSION: FeatureRange(0, 1),
    CHANGES_VERSION: FeatureRange(1, 2),
    ELR_VERSION: FeatureRange(1, 1),
    KRAFT_VERSION: FeatureRange(0, 1),
    METADATA_VERSION: FeatureRange(7, 33),
    SHARE_VERSION: FeatureRange(0, 2),
    STREAMS_VERSION: FeatureRange(0, 1),
    TRANSACTION_VERSION: FeatureRange(0, 2),
}
"""The features and levels that kwire supports; metadata.version 33 is that of Kafka 4.4."""

ONLY_RAISED = frozenset({ELR_VERSION, KRAFT_VERSION, METADATA_VERSION})
"""Features whose level says nothing about kwire's own metadata, and is never lowered."""


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


def own_features() -> tuple[tuple[str, int, int], ...]:
    """The features of this version of kwire, as a broker registers them."""
    return tuple((name, *levels) for name, levels in SUPPORTED.items())


def check_features(image: MetadataImage, broker: BrokerImage) -> None:
    """Raise KafkaError (UNSUPPORTED_VERSION) for a broker that lacks a finalised level."""
    for name, level in image.features.items():
        low, high = range_of(broker, name)
        if not low <= level <= high:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"broker {broker.node_id} supports {name} from {low} to {high}, but the cluster "
                f"has level {level}; start the version of kwire that the other brokers have",
            )


def range_of(broker: BrokerImage, name: str) -> FeatureRange:
    """The levels of a feature that a registered broker supports."""
    for known, low, high in broker.features:
        if known == name:
            return FeatureRange(low, high)
    return FeatureRange(0, 0)


def update_features(image: MetadataImage, updates: Iterable[FeatureUpdate]) -> list[Change]:
    """The changes that set new feature levels; KafkaError (INVALID_UPDATE_VERSION) if refused."""
    changes: list[Change] = []
    updates = list(updates)
    for update in updates:
        problem = _problem(image, update)
        if problem is not None:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.level} for feature {update.name[:200]}. {problem}",
            )
        if image.feature_level(update.name) != update.level:
            changes.append(FeatureLevelChanged(update.name, update.level))
    return changes


def _contains(levels: FeatureRange, level: int) -> bool:
    return levels.min_level <= level <= levels.max_level


def _lacking_broker(image: MetadataImage, update: FeatureUpdate) -> str | None:
    """Which registered broker lacks a level; None if all have it. One that is alone names none."""
    if not update.level:
        return None
    for broker in image.brokers.values():
        levels = range_of(broker, update.name)
        if broker.features and not _contains(levels, update.level):
            if not levels.max_level:
                return f"Broker {broker.node_id} does not support this feature."
            return (
                f"Broker {broker.node_id} only supports versions "
                f"{levels.min_level}-{levels.max_level}"
            )
    return None


def _problem(image: MetadataImage, update: FeatureUpdate) -> str | None:
    """The reason why the controller refuses an update; None if it accepts the update."""
    current = image.feature_level(update.name)
    is_upgrade = update.upgrade_type == UpgradeType.UPGRADE
    if update.upgrade_type not in set(UpgradeType):
        return "The controller does not support the given upgrade type."
    unsupported = _unsupported(update) or _lacking_broker(image, update)
    if unsupported is not None:
        return unsupported
    if update.level < current and is_upgrade:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if update.level > current and not is_upgrade:
        return "Can't downgrade to a newer version."
    if update.name in ONLY_RAISED and update.level < current:
        return "Can't downgrade the version of this feature."
    if update.name == CHANGES_VERSION and update.level < REPLICATION_LEVEL:
        return _replicated_topic(image) or _access(image)
    return None


def _unsupported(update: FeatureUpdate) -> str | None:
    """Why this kwire lacks a level; None if it has it."""
    levels = SUPPORTED.get(update.name)
    if update.level < 0:
        return "A feature version cannot be less than 0."
    if levels is None:
        return "Local controller does not support this feature."
    if not _contains(levels, update.level):
        return f"Local controller only supports versions {levels.min_level}-{levels.max_level}"
    return None


def _access(image: MetadataImage) -> str | None:
    """Why the level can't be lowered: there are credentials, tokens, ACLs or client quotas."""
    if image.scram_credentials:
        return f"There are SCRAM credentials, which need level {CREDENTIALS_LEVEL}."
    if image.tokens:
        return f"There are delegation tokens, which need level {TOKENS_LEVEL}."
    if image.acls:
        return f"There are ACLs, which need level {ACLS_LEVEL}."
    if image.client_quotas:
        return f"There are client quotas, which need level {QUOTAS_LEVEL}."
    return None


def _replicated_topic(image: MetadataImage) -> str | None:
    """Why the level can't be lowered: a topic has several replicas."""
    for topic in image.topics_by_name.values():
        if any(len(partition.replicas) > 1 for partition in topic.partitions):
            return f"Topic {topic.name} has several replicas, which need level {REPLICATION_LEVEL}."
    return None

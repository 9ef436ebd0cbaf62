"""Features go up and down as asked for, within what is supported, all of a request or none."""

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.acls import AclBinding, AclsCreated, AclsDeleted
from kwire.metadata.changes import (
    FeatureLevelChanged,
    TopicCreated,
    apply,
    from_json,
    snapshot,
    to_json,
)
from kwire.metadata.features import (
    CHANGES_VERSION,
    TRANSACTION_VERSION,
    FeatureUpdate,
    UpgradeType,
    initial_features,
    own_features,
    update_features,
)
from kwire.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage

UP, DOWN, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE

OLDER = {
    "group.version": 1,
    CHANGES_VERSION: 2,
    "kraft.version": 1,
    "metadata.version": 30,
    TRANSACTION_VERSION: 2,
}
"""The levels of a cluster that an older kwire began."""


@pytest.fixture
def image() -> MetadataImage:
    """A new cluster."""
    return apply(MetadataImage(), initial_features(), 1)


def test_a_new_cluster_has_the_highest_levels(image):
    assert image.feature_level(TRANSACTION_VERSION) == 2
    assert image.feature_level("metadata.version") == 33
    assert image.feature_level(CHANGES_VERSION) == 2


def test_a_level_of_zero_is_no_level(image):
    changes = update_features(image, [FeatureUpdate(TRANSACTION_VERSION, 0, DOWN)])
    lower = apply(image, changes, 2)
    assert TRANSACTION_VERSION not in lower.features
    assert update_features(lower, [FeatureUpdate(TRANSACTION_VERSION, 1, UP)]) == [
        FeatureLevelChanged(TRANSACTION_VERSION, 1)
    ]


def test_the_level_that_is_there_needs_no_change(image):
    for way in (UP, DOWN, UNSAFE):
        assert update_features(image, [FeatureUpdate(TRANSACTION_VERSION, 2, way)]) == []


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (FeatureUpdate(TRANSACTION_VERSION, 3, UP), "only supports versions 0-2"),
        (FeatureUpdate(TRANSACTION_VERSION, -1, DOWN), "cannot be less than 0"),
        (FeatureUpdate(TRANSACTION_VERSION, 1, UP), "Can't downgrade the version"),
        (FeatureUpdate(TRANSACTION_VERSION, 1, 0), "does not support the given upgrade type"),
        (FeatureUpdate("unknown.version", 1, UP), "does not support this feature"),
        (FeatureUpdate("metadata.version", 32, UNSAFE), "Can't downgrade the version"),
        (FeatureUpdate("metadata.version", 0, DOWN), "only supports versions 7-33"),
        (FeatureUpdate("kraft.version", 0, DOWN), "Can't downgrade the version"),
        (FeatureUpdate("eligible.leader.replicas.version", 0, DOWN), "only supports versions 1-1"),
        (FeatureUpdate("share.version", 3, UP), "only supports versions 0-2"),
        (FeatureUpdate("streams.version", 2, UP), "only supports versions 0-1"),
        (FeatureUpdate(CHANGES_VERSION, 3, UP), "only supports versions 1-2"),
        (FeatureUpdate(CHANGES_VERSION, 0, UNSAFE), "only supports versions 1-2"),
    ],
)
def test_an_update_that_is_refused_says_why(image, update, reason):
    with pytest.raises(KafkaError, match=reason) as refused:
        update_features(image, [FeatureUpdate(TRANSACTION_VERSION, 1, DOWN), update])
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION


RELEASES = {"4.3": (30, 1), "4.4": (33, 2)}
"""The levels of metadata.version and share.version in a release of Kafka."""


def _release(name: str, upgrade_type: int = UP) -> list[FeatureUpdate]:
    """What ``kafka-features upgrade --release-version`` sends."""
    metadata_version, share_version = RELEASES[name]
    levels = {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "kraft.version": 1,
        "metadata.version": metadata_version,
        "share.version": share_version,
        "streams.version": 1,
        TRANSACTION_VERSION: 2,
    }
    return [FeatureUpdate(name, level, upgrade_type) for name, level in levels.items()]


def test_a_cluster_goes_from_release_to_release(image):
    """One that began with an older kwire."""
    older = [FeatureLevelChanged(name, level) for name, level in OLDER.items()]
    old = apply(MetadataImage(), older, 1)
    at_4_3 = apply(old, update_features(old, _release("4.3")), 2)
    raised = {
        "eligible.leader.replicas.version": 1,
        "share.version": 1,
        "streams.version": 1,
    }
    assert at_4_3.features == {**OLDER, **raised}
    at_4_4 = apply(at_4_3, update_features(at_4_3, _release("4.4")), 3)
    assert at_4_4.features == image.features
    assert update_features(at_4_4, _release("4.4")) == []
    for kind in (UP, DOWN, UNSAFE):
        with pytest.raises(KafkaError, match=r"metadata\.version\. Can't downgrade"):
            update_features(at_4_4, _release("4.3", kind))


def test_a_release_waits_for_the_last_broker(image):
    """A broker of the version before is named; the levels stay."""
    ranges = tuple((name, 0, level) for name, level in OLDER.items())
    older = [FeatureLevelChanged(name, level) for name, level in OLDER.items()]
    brokers = {2: BrokerImage(2, None, (), "b", features=ranges)}
    old = apply(MetadataImage(), older, 1)._replace(brokers=brokers)
    with pytest.raises(KafkaError, match="Broker 2 does not support this feature"):
        update_features(old, _release("4.4"))


def test_replicas_keep_the_level_that_they_need(image):
    """An older kwire couldn't read what is committed about them."""
    lower = FeatureUpdate(CHANGES_VERSION, 1, DOWN)
    assert update_features(image, [lower]) == [FeatureLevelChanged(CHANGES_VERSION, 1)]
    topic = TopicImage("t", bytes(16), (PartitionImage(1, 0, (1, 2), (1,)),), 1)
    with pytest.raises(KafkaError, match="Topic t has several replicas"):
        update_features(apply(image, [TopicCreated(topic)], 2), [lower])


def test_an_upgrade_is_no_downgrade(image):
    lower = apply(image, [FeatureLevelChanged(TRANSACTION_VERSION, 1)], 2)
    with pytest.raises(KafkaError, match="newer version"):
        update_features(lower, [FeatureUpdate(TRANSACTION_VERSION, 2, DOWN)])


def test_levels_survive_in_a_store(image):
    again = apply(MetadataImage(), from_json(to_json(snapshot(image))), 1)
    assert again.features == image.features


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        ((("transaction.version", 0, 1),), "Broker 2 only supports versions 0-1"),
        ((("group.version", 0, 1),), "Broker 2 does not support this feature"),
    ],
)
def test_a_level_that_a_registered_broker_lacks_is_refused(image, features, reason):
    """A broker that is fenced counts, too: it may come back."""
    lower = apply(image, [FeatureLevelChanged(TRANSACTION_VERSION, 0)], 2)
    brokers = {
        1: BrokerImage(1, None, (), "a", features=own_features()),
        2: BrokerImage(2, None, (), "b", is_fenced=True, features=features),
    }
    lower = lower._replace(brokers=brokers)
    with pytest.raises(KafkaError, match=reason):
        update_features(lower, [FeatureUpdate(TRANSACTION_VERSION, 2, UP)])
    brokers[2] = brokers[2]._replace(features=own_features())
    assert update_features(lower, [FeatureUpdate(TRANSACTION_VERSION, 2, UP)])


def test_the_level_of_acls_stays_while_there_is_one(image):
    """A broker of an older version couldn't follow the log."""
    acl = AclBinding(2, "t", 3, "User:a", "*", 3, 3)
    lower = [FeatureUpdate(CHANGES_VERSION, 1, DOWN)]
    with_acl = apply(image, [AclsCreated((acl,))], 2)
    with pytest.raises(KafkaError, match="There are ACLs, which need level 2"):
        update_features(with_acl, lower)
    without = apply(with_acl, [AclsDeleted((acl,))], 3)
    assert update_features(without, lower) == [FeatureLevelChanged(CHANGES_VERSION, 1)]

"""What the APIs of share groups have in common."""

from collections.abc import Iterable

from kwire.broker.broker import Broker
from kwire.coordinator.group import GroupType
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.features import SHARE_VERSION

UNKNOWN_PARTITION = "This server does not host this topic-partition."
"""What Kafka says to UNKNOWN_TOPIC_OR_PARTITION."""


def check_share_protocol(broker: Broker) -> None:
    """Raise KafkaError (UNSUPPORTED_VERSION) if share groups are switched off.

    The feature ``share.version`` or the setting ``group.coordinator.rebalance.protocols`` switches
    them on.
    """
    allowed = broker.setting("group.coordinator.rebalance.protocols")
    assert isinstance(allowed, Iterable)
    if GroupType.SHARE.value not in allowed and not broker.image.feature_level(SHARE_VERSION):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The share group protocol is switched off.")

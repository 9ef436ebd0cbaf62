"""What the APIs of streams groups have in common."""

from collections.abc import Iterable

from kwire.broker.broker import Broker
from kwire.coordinator.group import GroupType
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.features import STREAMS_VERSION


def check_streams_protocol(broker: Broker) -> None:
    """Raise KafkaError (UNSUPPORTED_VERSION) if streams groups are switched off.

    The setting ``group.coordinator.rebalance.protocols`` and the feature ``streams.version`` switch
    them off.
    """
    allowed = broker.setting("group.coordinator.rebalance.protocols")
    assert isinstance(allowed, Iterable)
    is_allowed = GroupType.STREAMS.value in allowed
    if not is_allowed or not broker.image.feature_level(STREAMS_VERSION):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The version of API is not supported.")

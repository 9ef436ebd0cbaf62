"""What the APIs of streams groups have in common."""

from collections.abc import Iterable

from kwire.broker.broker import Broker
from kwire.coordinator.group import GroupType
from kwire.errors import ErrorCode, KafkaError


def check_streams_protocol(broker: Broker) -> None:
    """Raise KafkaError (UNSUPPORTED_VERSION) if streams groups are switched off.

    The setting ``group.coordinator.rebalance.protocols`` switches them off.
    """
    allowed = broker.setting("group.coordinator.rebalance.protocols")
    assert isinstance(allowed, Iterable)
    if GroupType.STREAMS.value not in allowed:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The version of API is not supported.")

"""Refuses dynamic configs of this broker with which one of its TLS listeners would fail.

This broker can't check configs for other brokers, because the files of the keys are on their disks.
If a key is unusable there, that broker keeps its old keys, and its log says why
(``kwire.security.own_keys``).
"""

from collections.abc import Sequence

from kwire.broker.broker import Broker
from kwire.config.broker import BrokerConfig
from kwire.config.metadata_store import SETTING as STORE
from kwire.config.settings import ConfigError
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, ConfigChanged
from kwire.metadata.image import ConfigResourceType, MetadataImage

_PREFIX, _SSL = "listener.name.", "ssl."


def checked(changes: list[Change], image: MetadataImage, broker: Broker) -> list[Change]:
    """The changes of one resource's configs; KafkaError (INVALID_REQUEST)."""
    listeners = _listeners(changes, str(broker.node_id))
    if not listeners:
        return changes
    before = dict(image.config(ConfigResourceType.BROKER, str(broker.node_id)))
    after = dict(before)
    for change in changes:
        assert isinstance(change, ConfigChanged)
        if change.value is None:
            after.pop(change.name, None)
        else:
            after[change.name] = change.value
    from kwire.security.key_changes import check_change

    for name in sorted(listeners & set(broker.config.secured_listeners)):
        old, new = (broker.config.of_listener(name, dynamic) for dynamic in (before, after))
        if not new.is_tls:
            continue
        try:
            check_change(old, new, is_among_brokers=name == _among_brokers(broker.config))
        except Exception as error:  # a client may have written anything into a config
            told = error if isinstance(error, ConfigError) else type(error).__name__
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Validation of dynamic config update of the listener {name} failed: {told}",
            ) from error
    return changes


def _among_brokers(config: BrokerConfig) -> str | None:
    """The listener whose keys other brokers have to trust; None for a single broker."""
    if STORE in config.given:
        return config.inter_broker_name or config.listeners()[0].name
    return config.inter_broker_name


def _listeners(changes: Sequence[Change], node_id: str) -> set[str]:
    """The listeners whose TLS changes."""
    found = set()
    for change in changes:
        if (
            isinstance(change, ConfigChanged)
            and change.resource_type == ConfigResourceType.BROKER
            and change.resource_name == node_id
            and change.name.startswith(_PREFIX)
        ):
            listener, _, rest = change.name.removeprefix(_PREFIX).partition(".")
            if rest.startswith(_SSL):
                found.add(listener.upper())
    return found

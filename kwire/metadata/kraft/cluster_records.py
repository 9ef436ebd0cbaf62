"""Metadata records of the cluster: its brokers and controllers, its features, its producer ids.

Each class is the record's fields in all its versions, named as Kafka names them.
"""

from kwire.protocol.types import (
    Nested,
    Schema,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)


class BrokerEndpoint(Nested):
    """Where a listener of a broker is reached."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class BrokerFeature(Nested):
    """A feature and the levels a broker supports."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterBrokerRecord(Schema, versions=(0, 4), flexible=0):
    """A broker came up."""

    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean(since=2)
    incarnation_id: bytes = uuid()
    broker_epoch: int = int64()
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint)
    features: list[BrokerFeature] = array(BrokerFeature)
    rack: str | None = string(nullable=True)
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean(since=1)
    log_dirs: list[bytes] = array(uuid, since=3, tag=0)
    cordoned_log_dirs: list[bytes] | None = array(uuid, since=4, nullable=True, default=None, tag=1)


class UnregisterBrokerRecord(Schema, versions=(0, 0), flexible=0):
    """A broker is no longer part of the cluster."""

    broker_id: int = int32()
    broker_epoch: int = int64()


class FenceBrokerRecord(Schema, versions=(0, 0), flexible=0):
    """A broker leads nothing from now on."""

    id: int = int32()
    epoch: int = int64()


class UnfenceBrokerRecord(Schema, versions=(0, 0), flexible=0):
    """A broker may lead again."""

    id: int = int32()
    epoch: int = int64()


class BrokerRegistrationChangeRecord(Schema, versions=(0, 3), flexible=0):
    """What changed of a broker; 0 and None stand for no change."""

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0)
    in_controlled_shutdown: int = int8(since=1, tag=1)
    log_dirs: list[bytes] = array(uuid, since=2, tag=2)
    cordoned_log_dirs: list[bytes] | None = array(uuid, since=3, nullable=True, default=None, tag=3)


class ControllerEndpoint(Nested):
    """Where a listener of a controller is reached."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class ControllerFeature(Nested):
    """A feature and the levels a controller supports."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterControllerRecord(Schema, versions=(0, 0), flexible=0):
    """A controller came up."""

    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    end_points: list[ControllerEndpoint] = array(ControllerEndpoint)
    features: list[ControllerFeature] = array(ControllerFeature)


class FeatureLevelRecord(Schema, versions=(0, 0), flexible=0):
    """A feature has this level in the whole cluster; 0 switches it off."""

    name: str = string()
    feature_level: int = int16()


class ProducerIdsRecord(Schema, versions=(0, 0), flexible=0):
    """Producer ids below this one are taken."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


class NoOpRecord(Schema, versions=(0, 0), flexible=0):
    """Nothing; the active controller shows that it is there."""


class ZkMigrationStateRecord(Schema, versions=(0, 0), flexible=0):
    """How far a move away from ZooKeeper was."""

    zk_migration_state: int = int8()


class BeginTransactionRecord(Schema, versions=(0, 0), flexible=0):
    """The records up to the end of the transaction count together or not at all."""

    name: str | None = string(nullable=True, default=None, tag=0)


class EndTransactionRecord(Schema, versions=(0, 0), flexible=0):
    """The records since the beginning of the transaction count."""


class AbortTransactionRecord(Schema, versions=(0, 0), flexible=0):
    """The records since the beginning of the transaction don't count."""

    reason: str | None = string(nullable=True, default=None, tag=0)

"""Metadata records of the cluster: its brokers and controllers, its features, its producer ids.

Each class has the fields of one record in all its versions, under Kafka's names.
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
    """The endpoint of a listener of a broker."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class BrokerFeature(Nested):
    """A feature and the levels of it that a broker supports."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterBrokerRecord(Schema, versions=(0, 4), flexible=0):
    """A broker registered with the controller."""

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
    """A broker was removed from the cluster."""

    broker_id: int = int32()
    broker_epoch: int = int64()


class FenceBrokerRecord(Schema, versions=(0, 0), flexible=0):
    """A broker was fenced: it leads no partition."""

    id: int = int32()
    epoch: int = int64()


class UnfenceBrokerRecord(Schema, versions=(0, 0), flexible=0):
    """A broker was unfenced: it may lead partitions."""

    id: int = int32()
    epoch: int = int64()


class BrokerRegistrationChangeRecord(Schema, versions=(0, 3), flexible=0):
    """The changed fields of a broker's registration; 0 and None stand for no change."""

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0)
    in_controlled_shutdown: int = int8(since=1, tag=1)
    log_dirs: list[bytes] = array(uuid, since=2, tag=2)
    cordoned_log_dirs: list[bytes] | None = array(uuid, since=3, nullable=True, default=None, tag=3)


class ControllerEndpoint(Nested):
    """The endpoint of a listener of a controller."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class ControllerFeature(Nested):
    """A feature and the levels of it that a controller supports."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterControllerRecord(Schema, versions=(0, 0), flexible=0):
    """A controller registered with the active controller."""

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
    """All producer ids below ``next_producer_id`` are allocated."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


class NoOpRecord(Schema, versions=(0, 0), flexible=0):
    """A record without content, by which the active controller shows that it is alive."""


class ZkMigrationStateRecord(Schema, versions=(0, 0), flexible=0):
    """The state of a migration from ZooKeeper."""

    zk_migration_state: int = int8()


class BeginTransactionRecord(Schema, versions=(0, 0), flexible=0):
    """A metadata transaction begins: its records take effect together or not at all."""

    name: str | None = string(nullable=True, default=None, tag=0)


class EndTransactionRecord(Schema, versions=(0, 0), flexible=0):
    """A metadata transaction ends: its records take effect."""


class AbortTransactionRecord(Schema, versions=(0, 0), flexible=0):
    """A metadata transaction was aborted: its records have no effect."""

    reason: str | None = string(nullable=True, default=None, tag=0)

"""The controller's decisions about dynamic configs: which changes are allowed, and what they make.

Rules:

- A topic's, a group's and a broker's configs are named and checked as Kafka does; of a broker's
  only those that Kafka can change while it runs.
- The broker named ``""`` stands for all; what holds for a listener or a key is set per broker
  alone.
- APPEND and SUBTRACT are for lists, and count from the value in force.

Source: ConfigurationControlManager, DynamicBrokerConfig of Kafka; KIP-339.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kwire.config.settings import (
    BROKER,
    GROUP,
    PER_BROKER,
    READ_ONLY,
    TOPIC,
    ConfigError,
    Setting,
    settings,
)
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, ConfigChanged
from kwire.metadata.image import ConfigResource, ConfigResourceType, MetadataImage

SCOPES = {
    ConfigResourceType.TOPIC: TOPIC,
    ConfigResourceType.BROKER: BROKER,
    ConfigResourceType.GROUP: GROUP,
}


class Operation(IntEnum):
    """What IncrementalAlterConfigs does to a config."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """One operation; ``value`` is None for DELETE."""

    name: str
    operation: int
    value: str | None


def resource_type(number: int) -> ConfigResourceType:
    """The type of a resource with configs; KafkaError (INVALID_REQUEST) for another."""
    if number not in [kind.value for kind in SCOPES]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {number}")
    return ConfigResourceType(number)


def check_resource(image: MetadataImage, resource: ConfigResource) -> None:
    """Raise KafkaError unless there is such a resource.

    UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST.
    """
    kind, name = resource
    if kind is ConfigResourceType.TOPIC and name not in image.topics_by_name:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
        )
    if kind is ConfigResourceType.GROUP and not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A group's name must not be empty.")
    if kind is ConfigResourceType.BROKER and name and name not in map(str, image.brokers):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"There is no broker {name}.")


def replace_configs(
    image: MetadataImage, resource: ConfigResource, configs: Mapping[str, str | None]
) -> list[Change]:
    """The changes that give a resource exactly these configs (AlterConfigs)."""
    check_resource(image, resource)
    current = image.config(*resource)
    wanted = {name: value for name, value in configs.items() if value is not None}
    if len(wanted) != len(configs):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Null value not supported for : " + str(configs)
        )
    for name, value in wanted.items():
        _check(resource, name, value)
    removed = [ConfigChanged(*resource, name, None) for name in current if name not in wanted]
    added = [
        ConfigChanged(*resource, name, value)
        for name, value in wanted.items()
        if current.get(name) != value
    ]
    return [*removed, *added]


def alter_configs(
    image: MetadataImage,
    resource: ConfigResource,
    alterations: Sequence[Alteration],
    effective: Mapping[str, str | None],
) -> list[Change]:
    """The changes of IncrementalAlterConfigs; ``effective`` are the values in force, as text."""
    check_resource(image, resource)
    names = [alteration.name for alteration in alterations]
    if len(set(names)) != len(names):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys: " + ", ".join(names)
        )
    changes: list[Change] = []
    for alteration in alterations:
        setting = _setting(resource, alteration.name)
        value = _altered(setting, alteration, effective.get(alteration.name) or "")
        if value is not None:
            _check(resource, alteration.name, value)
        if image.config(*resource).get(alteration.name) != value:
            changes.append(ConfigChanged(*resource, alteration.name, value))
    return changes


def _altered(setting: Setting, alteration: Alteration, current: str) -> str | None:
    """The value after one operation, None if the config is no longer set."""
    operation, value = alteration.operation, alteration.value
    if operation == Operation.DELETE:
        return None
    if value is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {alteration.name}"
        )
    if operation == Operation.SET:
        return value
    if operation not in (Operation.APPEND, Operation.SUBTRACT):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation}")
    if setting.type != "LIST":
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{Operation(operation).name} is for lists, {setting.name} is none.",
        )
    items = [item for item in current.split(",") if item]
    given = [item.strip() for item in value.split(",")]
    if operation == Operation.APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def _setting(resource: ConfigResource, name: str) -> Setting:
    kind, _ = resource
    setting = settings(SCOPES[kind]).get(name)
    if setting is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown {SCOPES[kind]} config name: {name}")
    return setting


def _check(resource: ConfigResource, name: str, value: str) -> None:
    """Raise KafkaError (INVALID_CONFIG, INVALID_REQUEST) unless the config may have the value."""
    kind, resource_name = resource
    setting = _setting(resource, name)
    if kind is ConfigResourceType.BROKER:
        if setting.mode == READ_ONLY:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Cannot update this config dynamically: {name}"
            )
        if setting.mode == PER_BROKER and not resource_name:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Cannot update this config for all brokers: {name}"
            )
    try:
        setting.parse(value)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error

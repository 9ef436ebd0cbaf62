"""The controller's decisions about dynamic configs: (image, resource, alteration) → changes.

Rules:

- The controller checks all configs that the resource will have, not only the changed ones.
- The broker named ``""`` stands for all brokers.
- APPEND and SUBTRACT work on lists only. They start from the resource's own value, or from the
  setting's default where the resource has no value.

Source: ConfigurationControlManager, ConfigAdminManager of Kafka; KIP-339.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kwire.config.settings import Value
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, ConfigChanged
from kwire.metadata.config_checks import (
    SCOPES,
    check_broker_configs,
    check_configs,
    check_number,
    find_setting,
)
from kwire.metadata.controller import check_topic_name
from kwire.metadata.image import ConfigResource, ConfigResourceType, MetadataImage
from kwire.metadata.partition_change import with_configs


class Operation(IntEnum):
    """The operations of IncrementalAlterConfigs; Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """One operation on the config ``name``; ``value`` is None for DELETE."""

    name: str
    operation: int
    value: str | None


def resource_type(number: int) -> ConfigResourceType:
    """The resource type of this number; KafkaError (INVALID_REQUEST) for one without configs."""
    if number not in [kind.value for kind in SCOPES]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {number}")
    return ConfigResourceType(number)


def check_resource(image: MetadataImage, resource: ConfigResource) -> None:
    """Raise KafkaError unless configs can be set for this resource.

    Topics and brokers have to exist; groups and subscriptions only need a name. Error codes:
    INVALID_REQUEST, INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION.
    """
    kind, name = resource
    if kind is ConfigResourceType.BROKER:
        if name and name not in map(str, image.brokers):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id {name}")
        return
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A {SCOPES[kind]} resource must have a name.")
    if kind is ConfigResourceType.TOPIC:
        check_topic_name(name)
        if name not in image.topics_by_name:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            )


def replace_configs(
    image: MetadataImage,
    resource: ConfigResource,
    configs: Sequence[tuple[str, str | None]],
    broker: Mapping[str, Value],
) -> list[Change]:
    """The changes that give a resource exactly these configs (AlterConfigs).

    ``broker`` are the broker's effective settings. Raises KafkaError: INVALID_REQUEST,
    INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION.
    """
    check_number(len(configs))
    _check_unique([name for name, _ in configs])
    _check_values([name for name, value in configs if value is None])
    check_resource(image, resource)
    wanted = {name: value for name, value in configs if value is not None}
    _check_configs(resource, wanted, broker)
    return _difference(image, resource, wanted)


def alter_configs(
    image: MetadataImage,
    resource: ConfigResource,
    alterations: Sequence[Alteration],
    broker: Mapping[str, Value],
) -> list[Change]:
    """The changes of IncrementalAlterConfigs; arguments and errors as in ``replace_configs``."""
    check_number(len(alterations))
    _check_unique([alteration.name for alteration in alterations])
    _check_values(
        [a.name for a in alterations if a.value is None and a.operation != Operation.DELETE]
    )
    check_resource(image, resource)
    wanted = dict(image.config(*resource))
    for alteration in alterations:
        value = _altered(resource, alteration, wanted.get(alteration.name))
        if value is None:
            wanted.pop(alteration.name, None)
        else:
            wanted[alteration.name] = value
    _check_configs(resource, wanted, broker)
    return _difference(image, resource, wanted)


def _difference(
    image: MetadataImage, resource: ConfigResource, wanted: Mapping[str, str]
) -> list[Change]:
    current = image.config(*resource)
    changes: list[Change] = [
        ConfigChanged(*resource, name, None) for name in current if name not in wanted
    ]
    changes += [
        ConfigChanged(*resource, name, value)
        for name, value in wanted.items()
        if current.get(name) != value
    ]
    return changes + with_configs(image, resource, wanted)


def _altered(resource: ConfigResource, alteration: Alteration, current: str | None) -> str | None:
    """The value of a config after one operation; None if the operation removes the config."""
    name, operation, value = alteration
    if operation == Operation.DELETE or value is None:
        return None
    if operation == Operation.SET:
        return value
    if operation not in (Operation.APPEND, Operation.SUBTRACT):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation} for {name}")
    setting = find_setting(resource[0], name)
    if setting is None or setting.type != "LIST":
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {Operation(operation).name} to {name}: its type is not LIST.",
        )
    text = current if current is not None else setting.default or ""
    items = [item for item in text.split(",") if item]
    given = dict.fromkeys(item.strip() for item in value.split(","))
    if operation == Operation.APPEND:
        known = set(items)
        items += [item for item in given if item not in known]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def _check_unique(names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def _check_values(names_without: Sequence[str]) -> None:
    if names_without:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Null value not supported for : {', '.join(names_without)}",
        )


def _check_configs(
    resource: ConfigResource, wanted: Mapping[str, str], broker: Mapping[str, Value]
) -> None:
    """Raise KafkaError (INVALID_CONFIG, INVALID_REQUEST) for configs that are not allowed."""
    check_number(len(wanted))
    kind, name = resource
    if kind is ConfigResourceType.BROKER:
        check_broker_configs(wanted, broker, all_brokers=not name)
    else:
        check_configs(kind, wanted, broker)

"""The loggers of this process as configs of a broker: clients can see and change their levels.

Rules:

- A config has the name of a logger: ``root``, ``kwire``, a package like ``kwire.log``, or a module.
  Its value is the level in force, in Kafka's words. A changed level lasts as long as the process.
- SET gives a logger a level. DELETE removes that level, so that the parent logger's level counts.

Source: KIP-412, RuntimeLoggerManager of Kafka.
"""

import logging
from collections.abc import Iterator, Sequence

from kwire.broker.configs import UNKNOWN_TYPE, ConfigEntry, ConfigSource
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.config_control import Alteration, Operation

ROOT = "root"

LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""Kafka's levels, with Python's numbers, from the most to the least verbose."""


def logger_configs() -> Iterator[ConfigEntry]:
    """Every logger with its level."""
    for name, logger in sorted(_loggers().items()):
        level = _level_name(logger.getEffectiveLevel())
        source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
        yield ConfigEntry(name, level, source, UNKNOWN_TYPE, False, False, ())


def alter_loggers(alterations: Sequence[Alteration], *, validate_only: bool) -> None:
    """Change levels, all of them or none.

    Raises KafkaError: INVALID_CONFIG for an unknown logger or level, INVALID_REQUEST for an
    operation that levels don't allow.
    """
    loggers = _loggers()
    for alteration in alterations:
        _check(alteration, loggers)
    if validate_only:
        return
    for name, operation, value in alterations:
        deleted = operation == Operation.DELETE
        loggers[name].setLevel(logging.NOTSET if deleted else LEVELS[value or ""])


def _loggers() -> dict[str, logging.Logger]:
    """Loggers by name. A package has a logger as soon as one of its modules has one."""
    known = list(logging.Logger.manager.loggerDict)
    loggers = {name: logging.getLogger(name) for name in known if name.partition(".")[0] == "kwire"}
    return {ROOT: logging.getLogger(), **loggers}


def _level_name(level: int) -> str:
    names = [name for name, number in LEVELS.items() if number >= level]
    return names[0] if names else "FATAL"


def _check(alteration: Alteration, loggers: dict[str, logging.Logger]) -> None:
    name, operation, value = alteration
    if name not in loggers:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == Operation.SET:
        if value not in LEVELS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {name} to {value}; "
                f"valid log levels are {', '.join(LEVELS)}",
            )
    elif operation != Operation.DELETE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A log level can only be set or deleted.")
    elif name == ROOT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
        )

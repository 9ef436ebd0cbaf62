"""Regular expressions that members subscribe with: RE2's syntax, matched against whole names.

Rules:

- RE2 takes time in proportion to the name, whatever the expression: a client can't stop the broker
  with one. The library is an extra; without it nobody can subscribe with an expression, and is told
  what to install.
- An expression is compiled once. It sees every topic, internal ones too.

Source: TopicRegexResolver of Kafka 4.3, which uses RE2/J.
"""

from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any

from kwire.errors import ErrorCode, KafkaError

MISSING = (
    "This broker has no library for regular expressions of consumer groups: "
    "install kwire[regex] (google-re2)."
)


def check_regex(regex: str) -> None:
    """Raise KafkaError (INVALID_REGULAR_EXPRESSION) unless this is a regular expression."""
    _compile(regex)


def resolve(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that an expression matches as a whole; KafkaError as ``check_regex``."""
    pattern = _compile(regex)
    return frozenset(name for name in names if pattern.fullmatch(name))


@lru_cache(maxsize=256)
def _compile(regex: str) -> Any:
    try:
        re2 = import_module("re2")
    except ImportError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, MISSING) from error
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {_say(error)}.",
        ) from error


def _say(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)

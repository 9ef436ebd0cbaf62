"""The ``match`` config of a client-metrics subscription: which clients it is for (KIP-714).

Source: ClientMetricsConfigs.parseMatchingPatterns of Kafka. A pattern has to match the whole value.
kwire matches with RE2, as for consumer groups: no pattern takes long.
"""

from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any

SELECTORS = frozenset(
    {
        *("client_id", "client_instance_id", "client_software_name", "client_software_version"),
        *("client_source_address", "client_source_port"),
    }
)

PUSH_INTERVAL_MS = 300_000
"""How often a client without a subscription asks for one."""

ALL_METRICS = "*"


def parse_match(pairs: Iterable[str]) -> dict[str, str]:
    """Patterns by selector; ValueError with Kafka's text for a malformed pair."""
    found: dict[str, str] = {}
    for pair in pairs:
        selector, *pattern = [part.strip() for part in pair.split("=")]
        if selector not in SELECTORS or len(pattern) != 1 or not pattern[0]:
            raise ValueError(f"Illegal client matching pattern: {pair}")
        if not _is_pattern(pattern[0]):
            raise ValueError(f"Illegal client matching pattern: {pair}")
        found[selector] = pattern[0]
    return found


def is_match(patterns: dict[str, str], attributes: dict[str, str | None]) -> bool:
    """Whether a client with these attributes matches every pattern."""
    for selector, pattern in patterns.items():
        value = attributes[selector]
        if value is None or _compiled(pattern).fullmatch(value) is None:
            return False
    return True


def _is_pattern(text: str) -> bool:
    try:
        _compiled(text)
    except ValueError:
        return False
    return True


@lru_cache(256)
def _compiled(pattern: str) -> Any:
    """A pattern for RE2; ValueError if it is none."""
    re2 = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(str(error)) from error

"""Which Apache Kafka the tests, the bench and the tools run: the newest, or the one asked for.

``KAFKA_VERSION=4.3.1`` asks for another, for example ``make kafka KAFKA_VERSION=4.3.1``.
"""

import os
from collections.abc import Mapping

SUPPORTED = ("4.4.0", "4.3.1")
"""The versions that the compat tests pass on; the first is the one that nobody has to ask for."""


def version_asked_for(environment: Mapping[str, str]) -> str:
    """The version to run; a version that no test has seen ends the program with one line."""
    asked = environment.get("KAFKA_VERSION") or SUPPORTED[0]
    if asked not in SUPPORTED:
        raise SystemExit(f"KAFKA_VERSION={asked}: it can be {' or '.join(SUPPORTED)}")
    return asked


VERSION = version_asked_for(os.environ)
NAME = f"Apache Kafka {VERSION}"
CONFIGS = (
    "kafka.admin.ConfigCommand" if VERSION == "4.3.1" else "org.apache.kafka.tools.ConfigCommand"
)
"""The class of kafka-configs, which has moved."""

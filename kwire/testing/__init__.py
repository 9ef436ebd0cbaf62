"""Tools for tests: brokers in another process or in this one, and ways to wait for states.

``with Kafka() as kafka:`` is a broker for a test, and the pytest fixtures ``kafka``,
``kafka_session``, ``kafka_secured``, ``kafka_cluster`` and ``kafka_process`` are made of it and its
relatives: docs/TESTING.md.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kwire.testing.kafka import BrokerFailed, Kafka, Record
    from kwire.testing.kafka_cluster import KafkaCluster
    from kwire.testing.kafka_process import KafkaProcess
    from kwire.testing.kafka_secured import KafkaSecured

_PLACES = {
    "KafkaCluster": "kwire.testing.kafka_cluster",
    "KafkaProcess": "kwire.testing.kafka_process",
    "KafkaSecured": "kwire.testing.kafka_secured",
}

__all__ = ["BrokerFailed", "Kafka", "KafkaCluster", "KafkaProcess", "KafkaSecured", "Record"]


def __getattr__(name: str) -> Any:
    """Import what is asked for: the pytest plugin loads this package in every run of pytest."""
    if name not in __all__:
        raise AttributeError(f"module 'kwire.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES.get(name, "kwire.testing.kafka")), name)

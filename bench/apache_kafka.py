"""Apache Kafka for measurements: formatted before the clock starts, ready as soon as it answers.

The settings are those of ``compat_tests.apache_kafka``: Kafka's own ``server.properties`` for one
broker, and its own JVM options. Kafka logs less than by default, which is in its favor.
"""

from collections.abc import Mapping
from pathlib import Path

from bench.load import ask
from compat_tests.apache_kafka import ApacheKafka
from compat_tests.java_tools import MissingTool, java, libs
from kwire.protocol.messages.api_versions import ApiVersionsRequest


class MeasuredKafka(ApacheKafka):
    """One broker whose directory is formatted."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str]) -> None:
        super().__init__(data_dir, settings)
        self.prepare()

    def _answers(self) -> bool:
        """Whether the broker answers a request, which needs no client library."""
        self._raise_if_ended()
        request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
        try:
            return bool(ask(self.bootstrap, request, 3).error_code == 0)
        except OSError:
            return False


def missing() -> str:
    """Why Kafka can't be started here, or ""; downloads its jars if they are missing."""
    try:
        java()
        libs()
    except MissingTool as error:
        return str(error)
    return ""

"""Apache Kafka as it is measured: formatted before the clock runs, and seen as soon as it answers.

The settings are those of ``compat_tests.apache_kafka``: Kafka's own ``server.properties`` for one
broker, its own JVM options. Its log configuration is quieter than Kafka's own, in its favour.
"""

from collections.abc import Mapping
from pathlib import Path

from bench.load import ask
from compat_tests.apache_kafka import ApacheKafka
from compat_tests.java_tools import MissingTool, java, libs
from kwire.protocol.messages.api_versions import ApiVersionsRequest


class MeasuredKafka(ApacheKafka):
    """One broker whose directory is ready."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str]) -> None:
        super().__init__(data_dir, settings)
        self.prepare()

    def _answers(self) -> bool:
        """Whether it answers a request; no client is set up for that."""
        self._raise_if_ended()
        request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
        try:
            return bool(ask(self.bootstrap, request, 3).error_code == 0)
        except OSError:
            return False


def missing() -> str:
    """Why it can't be started here, or nothing; fetches its jars if need be."""
    try:
        java()
        libs()
    except MissingTool as error:
        return str(error)
    return ""

"""How large a record of a compressed batch may be: ``max.decompressed.message.bytes``."""

import pytest

from compat_tests.conftest import Names
from compat_tests.kafka_version import VERSION
from compat_tests.raw_client import RawClient
from kwire.errors import ErrorCode
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.record.compression import Compression
from kwire.record.records import Record, build_batch
from kwire.testing.waiting import wait_until
from tests.support.requests import create_topics_request, list_offsets_request, produce_request

NAME = "max.decompressed.message.bytes"
CODECS = (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
SET = 0

pytestmark = pytest.mark.skipif(VERSION == "4.3.1", reason=f"Apache Kafka has {NAME} since 4.4")


class Topic:
    """A topic with a limit."""

    def __init__(self, client: RawClient, name: str, limit: int) -> None:
        self._client = client
        self._name = name
        client.ask(create_topics_request(name, **{NAME: str(limit)}), 5)
        wait_until(lambda: self.produce(0, Compression.NONE) == ErrorCode.NONE, what="a leader")

    def produce(self, size_bytes: int, compression: Compression, timestamp: int = 1000) -> int:
        """The error of a record of this size."""
        record = Record(0, timestamp, b"k", bytes(size_bytes))
        batch = bytes(build_batch([record], compression=compression))
        answer = self._client.ask(produce_request(self._name, batch), 9)
        return int(answer.responses[0].partition_responses[0].error_code)

    def look_up(self, timestamp: int) -> int:
        """The error of a lookup by time."""
        answer = self._client.ask(list_offsets_request(self._name, timestamp=timestamp), 7)
        return int(answer.topics[0].partitions[0].error_code)

    def set_limit(self, limit: int) -> None:
        """Another limit."""
        config = AlterableConfig(name=NAME, config_operation=SET, value=str(limit))
        resource = AlterConfigsResource(
            resource_type=ConfigResourceType.TOPIC, resource_name=self._name, configs=[config]
        )
        answer = self._client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("codec", CODECS)
def test_a_larger_record_is_refused_where_it_is_decompressed(
    bootstrap: str, names: Names, codec: Compression
) -> None:
    """When it is produced, and when it is looked for by its time; one that comes uncompressed is
    held to the size of its batch alone."""
    with RawClient(bootstrap) as client:
        _check(Topic(client, names.topic(), limit=1000), codec)


def _check(topic: Topic, codec: Compression) -> None:
    assert topic.produce(980, codec, timestamp=2000) == ErrorCode.NONE
    assert topic.produce(1000, codec) == ErrorCode.INVALID_RECORD
    assert topic.produce(1000, Compression.NONE) == ErrorCode.NONE
    assert topic.look_up(1500) == ErrorCode.NONE
    topic.set_limit(900)
    wait_until(lambda: topic.look_up(1500) == ErrorCode.INVALID_RECORD, what="the lower limit")
    topic.set_limit(2000)
    wait_until(lambda: topic.look_up(1500) == ErrorCode.NONE, what="the higher limit")

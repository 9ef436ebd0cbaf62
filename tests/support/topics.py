"""Topics that a test creates with a stock client, on a broker in another process.

Tests of the creation itself use the clients as they are.
"""

import logging
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import confluent_kafka.admin

from compat_tests.raw_client import RawConnection
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.testing.waiting import wait_until

TIMEOUT_S = 120

QUIET = logging.getLogger("kwire.tests.librdkafka")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


def create_topics(
    where: str | Mapping[str, Any],
    *names: str,
    partitions: int = 1,
    replicas: int = 1,
    **configs: object,
) -> None:
    """Create topics that are alike, and wait until they are known: others hear of them later.

    ``where`` are the addresses of brokers, each of which has to know the leaders; or the settings
    of a client, which asks any broker. ``retention_ms=-1`` is a setting of the topics. Raises
    KafkaException.
    """
    client_settings = {"bootstrap.servers": where} if isinstance(where, str) else dict(where)
    client = confluent_kafka.admin.AdminClient(client_settings, logger=QUIET)
    settings = {name.replace("_", "."): str(value) for name, value in configs.items()}
    new = [
        confluent_kafka.admin.NewTopic(name, partitions, replicas, config=settings)
        for name in names
    ]
    for created in client.create_topics(
        new, operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S
    ).values():
        created.result(TIMEOUT_S)
    wanted = partitions * len(names)
    if isinstance(where, str):
        for address in where.split(","):
            _wait_at(address, names, wanted)
        return

    def known() -> int:
        found = client.list_topics(timeout=TIMEOUT_S).topics
        return sum(len(found[name].partitions) for name in names if name in found)

    wait_until(lambda: known() == wanted, what="the topics to be known")


def _wait_at(address: str, names: tuple[str, ...], wanted: int) -> None:
    """Wait until a broker knows the leaders of this number of partitions."""
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
    )
    with closing(RawConnection(address)) as broker:

        def led() -> int:
            found = broker.ask(asked, 12).topics
            return sum(one.leader_id >= 0 for topic in found for one in topic.partitions)

        wait_until(lambda: led() == wanted, what=f"{address} to know the topics")

"""Rows of consumer groups (KIP-848): how long ten members take to share the partitions.

The members are librdkafka's, with its default settings. The broker sets their heartbeat interval.
"""

import logging
import time

from confluent_kafka import Consumer

from bench.rows.common import Row, Running, create_topic

MEMBERS = 10
PARTITIONS = 30
TOPIC = "shared-by-ten"
TIME_LIMIT_S = 60

_QUIET = logging.getLogger("bench.librdkafka")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


def ten_members_ms(running: Running) -> float:
    """Time from the first subscription until each member has three partitions."""
    create_topic(running.broker.bootstrap, TOPIC, PARTITIONS)
    config = {
        "bootstrap.servers": running.broker.bootstrap,
        "group.id": f"bench-{time.monotonic_ns()}",
        "group.protocol": "consumer",
    }
    members = [Consumer(config, logger=_QUIET) for _ in range(MEMBERS)]
    try:
        started = time.perf_counter()
        for member in members:
            member.subscribe([TOPIC])
        while sum(map(_has_its_share, members)) < MEMBERS:
            assert time.perf_counter() - started < TIME_LIMIT_S, "the group does not settle"
        return (time.perf_counter() - started) * 1000
    finally:
        for member in members:
            member.close()


def _has_its_share(member: Consumer) -> bool:
    member.poll(0.001)
    return len(member.assignment()) == PARTITIONS // MEMBERS


CONSUMER_GROUP_ROWS: list[Row] = [
    Row("10 consumers (KIP-848) share 30 partitions", "ms", False, ten_members_ms),
]

"""FastStream on confluent-kafka."""

import asyncio
import sys

from faststream import AckPolicy, FastStream
from faststream.confluent import KafkaBroker

bootstrap, source, target, name = sys.argv[1:]
broker = KafkaBroker(bootstrap)


@broker.subscriber(
    source,
    group_id=name,
    auto_offset_reset="earliest",
    ack_policy=AckPolicy.ACK,
    session_timeout_ms=6000,
)
@broker.publisher(target)
async def capitals(value: str) -> str:
    """Write each value in capitals."""
    return value.upper()


asyncio.run(FastStream(broker).run())

"""A limit on what a group keeps about one of its members: ``kwire.group.member.max.bytes``.

Kafka has no such limit. Its groups can't use much more either, because the data of all members has
to fit into one batch of ``__consumer_offsets``.
"""

from collections.abc import Sequence

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext

SETTING = "kwire.group.member.max.bytes"

BYTES_PER_ITEM = 64
"""What a name costs in memory besides its characters."""


def check_member_size(items: Sequence[tuple[str, int]], context: RequestContext) -> None:
    """Raise KafkaError (INVALID_REQUEST) if a member's data is beyond the limit.

    Each item is a name and a number of bytes.
    """
    most = context.broker.integer(SETTING)
    size_bytes = len(items) * BYTES_PER_ITEM
    if size_bytes <= most:
        size_bytes += sum(len(name) + more for name, more in items)
    if size_bytes > most:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the subscription of a member has {size_bytes} bytes; {SETTING}={most} allows no more",
        )

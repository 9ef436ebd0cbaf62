"""A limit on what a group keeps about one of its members: ``kwire.group.member.max.bytes``.

Kafka has no such limit. Its groups can't use much more either, because the data of all members has
to fit into one batch of ``__consumer_offsets``.
"""

from collections.abc import Iterable
from itertools import islice

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.slices import PIECE, give_way

SETTING = "kwire.group.member.max.bytes"

BYTES_PER_ITEM = 64
"""The memory that a name takes besides its characters."""


async def check_member_size(sizes: Iterable[int], context: RequestContext) -> None:
    """Raise KafkaError (INVALID_REQUEST) if a member's data is beyond the limit.

    ``sizes`` are the bytes of its items, which are counted no further than to the limit.
    """
    most = context.broker.integer(SETTING)
    left, size_bytes = iter(sizes), 0
    while piece := list(islice(left, PIECE)):
        size_bytes += sum(piece) + len(piece) * BYTES_PER_ITEM
        if size_bytes > most:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the subscription of a member has {size_bytes} bytes or more; {SETTING}={most} "
                "allows no more",
            )
        await give_way(context.work)

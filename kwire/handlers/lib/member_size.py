"""A limit on what a group keeps about one of its members: ``kwire.group.member.max.bytes``.

Kafka has no such limit. Its groups can't use much more either, because the data of all members has
to fit into one batch of ``__consumer_offsets``.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.slices import give_way, pieces

_T = TypeVar("_T")

SETTING = "kwire.group.member.max.bytes"

BYTES_PER_ITEM = 64
"""The memory that a name takes besides its characters."""


async def check_member_size(
    items: Sequence[_T], bytes_of: Callable[[_T], int], context: RequestContext
) -> None:
    """Raise KafkaError (INVALID_REQUEST) if a member's data is beyond the limit.

    ``bytes_of`` gives the bytes of one item.
    """
    most = context.broker.integer(SETTING)
    size_bytes = len(items) * BYTES_PER_ITEM
    if size_bytes <= most:
        for piece in pieces(items):
            await give_way(context.work)
            size_bytes += sum(map(bytes_of, piece))
    if size_bytes > most:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the subscription of a member has {size_bytes} bytes; {SETTING}={most} allows no more",
        )

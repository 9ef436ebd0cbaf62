"""Begins, ends and reads the share states of a group's partitions, with the persister.

Rule: the partitions of one request take their turns ``AT_ONCE``, so that a topic with thousands of
them keeps no other group's waiting for long. If their coordinator is on this broker, nothing has to
be waited for, so they are done in slices of the event loop.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

import trio

from kwire.budget.slices import Slices
from kwire.coordinator.effects import Failures, StateWork
from kwire.errors import KafkaError
from kwire.share.key import SharePartitionKey

if TYPE_CHECKING:
    from kwire.share.persister import Persister
    from kwire.share.state_coordinator import StateSummary

T = TypeVar("T")

AT_ONCE = 16


async def do_state_work(persister: "Persister", work: StateWork) -> Failures:
    """Begin or end every state; returns the partitions for which that failed."""
    failures: dict[tuple[bytes, int], KafkaError] = {}

    async def do(one: tuple[tuple[bytes, int], int | None]) -> None:
        (topic_id, index), start_offset = one
        key = SharePartitionKey(work.group_id, topic_id, index)
        try:
            if start_offset is None:
                await persister.delete(key)
            else:
                await persister.initialize(key, work.state_epoch, start_offset)
        except KafkaError as error:
            failures[topic_id, index] = error

    await _in_turns(do, work.starts.items())
    return failures


async def read_summaries(
    persister: "Persister", keys: Iterable[SharePartitionKey]
) -> "dict[SharePartitionKey, StateSummary | KafkaError]":
    """How far a group is in partitions, or why that can't be told."""
    found: dict[SharePartitionKey, StateSummary | KafkaError] = {}

    async def read(key: SharePartitionKey) -> None:
        try:
            found[key] = await persister.read_summary(key)
        except KafkaError as error:
            found[key] = error

    await _in_turns(read, keys)
    return found


async def _in_turns(do: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    left, slices = iter(items), Slices()
    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(_do_all, do, left, slices)


async def _do_all(do: Callable[[T], Awaitable[None]], left: Iterator[T], slices: Slices) -> None:
    for item in left:
        await do(item)
        await slices.give_way()

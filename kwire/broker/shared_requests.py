"""Requests to other brokers that join the questions which many tasks ask at the same time.

Rule: each broker gets one request at a time. Questions that come meanwhile wait, and go together
into the next request. So many questions at the same time cost few requests.

Source: InterBrokerSendThread and its subclasses in Kafka.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import trio

from kwire.errors import KafkaError


class Wanted:
    """One part of a request; ``done`` is set when its answer or its ``failure`` is known."""

    __slots__ = ("done", "failure")

    def __init__(self) -> None:
        self.failure: KafkaError | None = None
        self.done = trio.Event()


W = TypeVar("W", bound=Wanted)


class SharedRequests(Generic[W]):
    """The requests of one kind to all other brokers; they are sent by tasks in ``nursery``."""

    def __init__(
        self,
        nursery: trio.Nursery,
        choose: Callable[[Sequence[W]], list[W]],
        ask: Callable[[int, list[W]], Awaitable[None]],
    ) -> None:
        """``choose`` picks the parts that go together in the next request, at least one.

        ``ask`` asks a broker, and notes the answers in these parts; KafkaError if it fails.
        """
        self._nursery = nursery
        self._choose = choose
        self._ask = ask
        self._waiting: dict[int, list[W]] = {}

    def add(self, node_id: int, wanted: W) -> None:
        """Ask a broker; the caller waits for ``wanted.done``."""
        if node_id in self._waiting:
            self._waiting[node_id].append(wanted)
        else:
            self._waiting[node_id] = [wanted]
            self._nursery.start_soon(self._ask_all, node_id)

    async def _ask_all(self, node_id: int) -> None:
        """Ask a broker until no question for it waits."""
        while waiting := self._waiting[node_id]:
            together = self._choose(waiting)
            chosen = set(map(id, together))
            assert together, node_id  # or this would go on for ever
            assert chosen <= set(map(id, waiting)), node_id
            self._waiting[node_id] = [one for one in waiting if id(one) not in chosen]
            try:
                await self._ask(node_id, together)
            except KafkaError as error:
                for one in together:
                    one.failure = KafkaError(error.code, error.message)
                    one.failure.__cause__ = error
            for one in together:
                one.done.set()
        del self._waiting[node_id]

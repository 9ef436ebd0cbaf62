"""Requests of the HTTP port have their turn, one of each address, so that probes needn't wait.

Rules:

- Of the requests of one address, one is answered at a time, in the order in which they came. A page
  takes milliseconds of the port's share of a processor: sixty of them at a time would keep a probe
  waiting for all.
- ``/metrics`` has turns beside those of the page, whose searches take seconds.
- Probes (``PROBES``) wait for no turn. A supervisor that gets no answer restarts the broker.
- An answer is sent after the turn, so nobody waits for a client that reads slowly.
"""

import trio

from kwire.web.guard import App, Message, Receive, Scope, Send

PROBES = frozenset({"/healthz", "/readyz"})
METRICS = "/metrics"


class Turns:
    """The ASGI application around ``app``, whose answers are not longer than memory allows."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._turns: dict[tuple[str, bool], trio.Lock] = {}
        """Of the addresses whose requests are being answered, for the page and for metrics."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request when its turn has come."""
        if scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        answer: list[Message] = []

        async def keep(message: Message) -> None:
            answer.append(message)

        whose = scope["client"][0], scope["path"] == METRICS
        turn = self._turns.setdefault(whose, trio.Lock())
        try:
            async with turn:
                await self._app(scope, receive, keep)
        finally:
            if not turn.locked():
                self._turns.pop(whose, None)
        for message in answer:
            await send(message)

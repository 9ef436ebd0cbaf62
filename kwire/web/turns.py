"""Requests of the HTTP port have their turn, one of each address, so that probes needn't wait.

Rules:

- Of the requests of one address, one is answered at a time, in the order in which they came. A page
  takes milliseconds of the port's share of a processor: sixty of them at a time would keep a probe
  waiting for all.
- Probes (``PROBES``) wait for no turn. A supervisor that gets no answer restarts the broker.
- An answer is sent after the turn, so nobody waits for a client that reads slowly.
"""

import trio

from kwire.web.guard import App, Message, Receive, Scope, Send

PROBES = frozenset({"/healthz", "/readyz"})


class Turns:
    """The ASGI application around ``app``, whose answers are not longer than memory allows."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._turns: dict[str, trio.Lock] = {}
        """Of the addresses whose requests are being answered."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request when its turn has come."""
        if scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        answer: list[Message] = []

        async def keep(message: Message) -> None:
            answer.append(message)

        host = scope["client"][0]
        turn = self._turns.setdefault(host, trio.Lock())
        try:
            async with turn:
                await self._app(scope, receive, keep)
        finally:
            if not turn.locked():
                self._turns.pop(host, None)
        for message in answer:
            await send(message)

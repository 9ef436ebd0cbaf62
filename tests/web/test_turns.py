"""One request of each address is answered at a time; probes don't wait."""

import trio
import trio.testing

from kwire.web.guard import Message, Receive, Scope, Send
from kwire.web.turns import Turns


async def test_requests_of_one_address_have_their_turn_and_probes_have_none() -> None:
    """Another address isn't kept waiting, nor is anybody by a client that reads slowly."""
    begun: list[tuple[str, str]] = []
    go_on, sent = trio.Event(), trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append((scope["client"][0], scope["path"]))
        if scope["path"] == "/slow":
            await go_on.wait()
        await send({"type": scope["path"]})

    async def receive() -> Message:
        raise AssertionError("nothing asks for a body")

    async def send(message: Message) -> None:
        await sent.wait()

    turns = Turns(app)
    async with trio.open_nursery() as nursery:
        for host, path in (
            ("one", "/slow"),
            ("one", "/next"),
            ("one", "/healthz"),
            ("one", "/metrics"),
            ("two", "/topics"),
        ):
            scope = {"client": (host, 0), "path": path}
            nursery.start_soon(turns, scope, receive, send)
            await trio.testing.wait_all_tasks_blocked()
        assert [path for _, path in begun] == ["/slow", "/healthz", "/metrics", "/topics"]
        go_on.set()
        await trio.testing.wait_all_tasks_blocked()
        assert begun[4:] == [("one", "/next")]
        sent.set()

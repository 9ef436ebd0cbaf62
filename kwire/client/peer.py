"""A broker's address, and a connection to it that is opened when it is needed.

After a failure the next attempt waits. The pause grows from one failure to the next, to spare a
broker that is overloaded (``reconnect.backoff.ms`` of Kafka's clients).
"""

import os
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeAlias, TypeVar

import trio

from kwire.client.backoff import Backoff
from kwire.client.connection import Connection
from kwire.client.errors import (
    AnswerTimeout,
    BadAnswer,
    CannotConnect,
    ClientError,
    ConnectionLost,
    NotLetIn,
    SecurityFailure,
)
from kwire.client.settings import ClientSettings
from kwire.client.versions import Served, negotiate, pick
from kwire.protocol.types import Request, Response

R = TypeVar("R", bound=Response)

OpenStream: TypeAlias = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""Opens a stream to a host and port; OSError if that fails."""


async def open_tcp(host: str, port: int) -> trio.abc.Stream:
    """A plain TCP stream; OSError, also for a text that can't be a host's name."""
    try:
        return await trio.open_tcp_stream(host, port)
    except UnicodeError as error:  # a part between two dots is empty or too long
        raise OSError(f"{host!r} can't be a host's name") from error


def shown_address(host: str, port: int) -> str:
    """``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Peer:
    """A broker at one address; connections run in ``nursery``."""

    def __init__(
        self,
        host: str,
        port: int,
        nursery: trio.Nursery,
        settings: ClientSettings,
        open_stream: OpenStream,
        random: Random,
    ) -> None:
        self.address = shown_address(host, port)
        self._host = host
        self._port = port
        self._nursery = nursery
        self._settings = settings
        self._open_stream = open_stream
        self._backoff = Backoff(settings.backoff_s, settings.max_backoff_s, random)
        self._not_before_s = 0.0
        self._opening = trio.Lock()
        self._connection: Connection | None = None
        self._served: Served | None = None

    @property
    def is_connected(self) -> bool:
        """Whether a request can be sent without opening a connection."""
        return self._connection is not None and self._connection.is_open

    async def served(self) -> Served:
        """The APIs and versions that the broker serves; CannotConnect."""
        return (await self.connected())[1]

    async def ask(
        self,
        request: Request,
        response: type[R],
        *,
        at_most: int | None = None,
        version: int | None = None,
        timeout_s: float | None = None,
    ) -> R:
        """Send a request and wait for the response; a ClientError if there is none.

        The version is the newest that both sides know, no newer than ``at_most``; ``version`` is
        for an API that brokers don't advertise.
        """
        connection, served = await self.connected()
        if version is None:
            version = pick(type(request), served, self.address, at_most)
        return await connection.ask(request, response, version, timeout_s)

    async def tell(self, request: Request, *, at_most: int | None = None) -> None:
        """Send a request that the broker doesn't answer; a ClientError."""
        connection, served = await self.connected()
        version = pick(type(request), served, self.address, at_most)
        await connection.send_unanswered(request, version)

    async def connected(self) -> tuple[Connection, Served]:
        """The open connection, after a pause if the last attempt failed; CannotConnect."""
        if self._connection is not None and self._served is not None and self._connection.is_open:
            return self._connection, self._served
        async with self._opening:
            if self._connection is None or self._served is None or not self._connection.is_open:
                await trio.sleep_until(self._not_before_s)
                try:
                    self._connection, self._served = await self._connect_or_again()
                except ClientError:
                    self._not_before_s = trio.current_time() + self._backoff.next_s()
                    raise
                self._backoff.reset()
            return self._connection, self._served

    async def _connect_or_again(self) -> tuple[Connection, Served]:
        """Connect; once more if the connection ends before its first answer.

        A broker that restarts ends connections that it has just accepted. Nothing is lost with
        them, so Kafka's clients try again as well.
        """
        try:
            return await self._connect()
        except (AnswerTimeout, BadAnswer):
            raise
        except ConnectionLost:
            return await self._connect()

    async def _connect(self) -> tuple[Connection, Served]:
        stream: trio.abc.Stream | None = None
        with trio.move_on_after(self._settings.connect_timeout_s):
            try:
                stream = await self._open_stream(self._host, self._port)
            except SecurityFailure as error:
                raise NotLetIn(self.address, str(error)) from error
            except OSError as error:
                raise CannotConnect(self.address, _reason(error)) from error
        if stream is None:
            text = f"no connection within {self._settings.connect_timeout_s:g} s"
            raise CannotConnect(self.address, text)
        connection = Connection(stream, self.address, self._settings)
        self._nursery.start_soon(connection.run)
        try:
            return connection, await negotiate(connection)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()


def _reason(error: OSError) -> str:
    """Why a connection failed; trio wraps the errors of several addresses of one host."""
    cause: BaseException | None = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    found = cause if isinstance(cause, OSError) else error
    if found.errno is not None and found.errno > 0:
        return os.strerror(found.errno).lower()
    return found.strerror or str(found)

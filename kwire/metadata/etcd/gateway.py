"""The calls of etcd's JSON gateway that the store needs: ``POST /v3/…``.

Rules:

- A call without an answer may have been done nevertheless. A call is repeated, at the next
  endpoint, until its time is over. So every call must be harmless when it is sent twice.

``http_gateway`` calls a real etcd. The tests have an etcd in memory.
"""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.etcd.transactions import Json

log = logging.getLogger(__name__)

CALL_S = 5.0
"""How long a call is repeated."""

TELL_AFTER_S = 0.5
"""After which wait for an answer the log says for what a start waits."""

UNAVAILABLE = 14
"""gRPC's code for a cluster without a leader."""


class EtcdError(Exception):
    """etcd refused a call; ``code`` is a gRPC status code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class NotEtcd(EtcdError):
    """An HTTP answer that no etcd gives: from a proxy before it, or from another server."""

    def __init__(self, status: int, content: bytes) -> None:
        text = content[:100].decode(errors="replace").strip()
        message = f"HTTP {status} {text!r} is no answer of etcd's gateway"
        super().__init__(UNAVAILABLE, message)
        self.status = status
        self.content = content


class Unreachable(KafkaError):
    """No endpoint answered in time. ``may_be_done`` says whether one may have got the call."""

    def __init__(self, endpoints: Sequence[str], reason: str, *, may_be_done: bool) -> None:
        message = f"no answer from etcd at {', '.join(endpoints)}: {reason}"
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)
        self.may_be_done = may_be_done


class Answered(NamedTuple):
    """An answer of etcd, and whether an earlier attempt may have been done as well."""

    body: Json
    is_repeated: bool


class Gateway(Protocol):
    """The calls and the watch."""

    async def call(self, path: str, body: Json, within_s: float = CALL_S) -> Answered:
        """The answer to a call; Unreachable, EtcdError, StoreUnusable."""

    def stream(
        self, path: str, messages: Sequence[Json]
    ) -> AbstractAsyncContextManager[AsyncIterator[Json]]:
        """The messages that etcd sends on a stream after these messages; Unreachable, EtcdError."""
        ...

    async def close(self) -> None:
        """Close the connections."""


class PatientGateway:
    """A gateway whose calls are repeated for as long as ``call_s`` says when they begin.

    A process that starts is patient, and says so, because its end would help nobody.
    """

    def __init__(self, gateway: Gateway, call_s: Callable[[], float]) -> None:
        self._gateway = gateway
        self._call_s = call_s

    async def call(self, path: str, body: Json, within_s: float | None = None) -> Answered:
        """The answer to a call; Unreachable, EtcdError, StoreUnusable."""
        left_s = self._call_s() if within_s is None else within_s
        if left_s <= CALL_S:
            return await self._gateway.call(path, body, left_s)
        try:
            return await self._gateway.call(path, body, TELL_AFTER_S)
        except Unreachable as error:
            log.info("waiting up to %g s for etcd: %s", left_s, error.message)
            may_be_done = error.may_be_done
        try:
            answer = await self._gateway.call(path, body, left_s - TELL_AFTER_S)
        except Unreachable as error:
            error.may_be_done = error.may_be_done or may_be_done
            raise
        return answer._replace(is_repeated=answer.is_repeated or may_be_done)

    def stream(
        self, path: str, messages: Sequence[Json]
    ) -> AbstractAsyncContextManager[AsyncIterator[Json]]:
        """The messages of a stream; Unreachable, EtcdError."""
        return self._gateway.stream(path, messages)

    async def close(self) -> None:
        """Close the connections."""
        await self._gateway.close()


class Access(NamedTuple):
    """User and password, and the files for TLS: CA, certificate and key. None: not used."""

    username: str | None = None
    password: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None

"""Calls of a real etcd's JSON gateway.

Rules:

- If an endpoint doesn't answer, or answers that its cluster has no leader, the gateway changes to
  the next endpoint, for all calls.
- If the leader of etcd's cluster dies, writes on their way to it are lost, and their endpoint is
  silent for seconds. So the gateway asks a slow endpoint for its status. If another leader was
  elected since, the call is sent again. If the endpoint doesn't answer, the gateway changes to the
  next one.
- A token is fetched with user and password when etcd asks for one. Tokens expire after minutes
  without use, and when users or roles change; then a new one is fetched.
- At the start the gateway waits until an etcd answers whose cluster has a leader. What waiting
  can't mend ends the start at once, as soon as no endpoint does better (``advice``). Later it is
  one of the reasons why no endpoint answers.
"""

import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING

import trio

from kwire.config.metadata_store import SETTING, EtcdAddress
from kwire.metadata.etcd.advice import advice
from kwire.metadata.etcd.gateway import (
    CALL_S,
    TELL_AFTER_S,
    UNAVAILABLE,
    Access,
    Answered,
    EtcdError,
    NotEtcd,
    Unreachable,
)
from kwire.metadata.etcd.http_client import Headers, HttpClient, HttpError, Lines, NotConnected
from kwire.metadata.etcd.transactions import Json
from kwire.metadata.store import StoreUnusable

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

PAUSE_S = 0.1
"""The mean pause after every endpoint has failed."""

SILENT_S, LOOK_EVERY_S = 0.25, 0.1
"""When a silent endpoint is first asked for the leader's term, and how often it is asked again."""

STATUS_S = 0.5
"""How long an endpoint may take to answer that, which it can without its cluster."""

OLDEST = (3, 4)
"""The oldest version of etcd that works; older versions have another gateway."""

CANCELLED, DEADLINE, DENIED = 1, 4, 7
_TRY_ELSEWHERE = {CANCELLED, DEADLINE, UNAVAILABLE}
_NO_AUTHENTICATION = "authentication is not enabled"
_OLD_TOKEN = ("invalid auth token", "revision in header is old", "user name is empty")


class _LeaderChanged(Exception):
    """etcd has elected a leader since a call was sent: the call may have been lost."""


class _Messages:
    """The messages of a stream; EtcdError if a message is an error."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def __aiter__(self) -> "_Messages":
        return self

    async def __anext__(self) -> Json:
        line = await anext(self._lines)
        found = json.loads(line)
        if "error" in found:
            raise _error(200, line)
        message: Json = found["result"]
        return message


class HttpGateway:
    """The gateway of a real etcd, over HTTP."""

    def __init__(self, address: EtcdAddress, access: Access, random: Random) -> None:
        """StoreUnusable if a file for TLS can't be used."""
        self._endpoints = list(address.endpoints)
        random.shuffle(self._endpoints)  # so that brokers use different endpoints
        self._access = access
        self._random = random
        self._token: str | None = None
        self._term = 0
        self._is_open = False
        self._client = HttpClient(_new_context(access) if address.is_tls else None)

    async def open(self, patience_s: float = CALL_S) -> None:
        """Wait for an etcd that isn't too old and has a leader; StoreUnusable, Unreachable."""
        deadline = trio.current_time() + patience_s
        within_s, is_told = min(TELL_AFTER_S, patience_s), False
        while not self._is_open:
            try:
                answer = await self.call("maintenance/status", {}, within_s)
                endpoint = self._endpoints[0]
                _check_version(answer.body, endpoint)
                self._is_open = bool(int(answer.body.get("leader", 0)))
                if not self._is_open:
                    await self._leave_endpoint(endpoint)
                    reason = "its cluster has no leader"
                    raise Unreachable([endpoint], reason, may_be_done=False)
            except Unreachable as error:
                within_s = deadline - trio.current_time()
                if within_s <= PAUSE_S:
                    raise
                if not is_told:
                    log.info("waiting up to %g s for etcd: %s", patience_s, error.message)
                is_told = True
                await trio.sleep(PAUSE_S)

    async def call(self, path: str, body: Json, within_s: float = CALL_S) -> Answered:
        """The answer to a call; Unreachable, EtcdError, StoreUnusable."""
        deadline = trio.current_time() + within_s
        content = json.dumps(body).encode()
        may_be_done, failures = False, 0
        reason, advised = "no answer in time", list[str]()
        while True:
            endpoint, left_s = self._endpoints[0], deadline - trio.current_time()
            try:
                with trio.fail_after(max(left_s, 0)):
                    return Answered(await self._attempt(path, content), may_be_done)
            except _LeaderChanged:
                may_be_done = True
                continue
            except (HttpError, EtcdError, trio.TooSlowError) as error:
                if isinstance(error, EtcdError) and error.code not in _TRY_ELSEWHERE:
                    raise
                may_be_done = may_be_done or not isinstance(error, NotConnected)
                found = advice(error, endpoint)
                reason = found or str(error) or reason
                advised += [found] if found is not None else []
            await self._leave_endpoint(endpoint)
            failures += 1
            pause_s = 0.0
            if failures % len(self._endpoints) == 0:
                if advised and not self._is_open:
                    raise StoreUnusable(advised[0])
                pause_s = self._random.uniform(0.5, 1.5) * PAUSE_S
            if trio.current_time() + pause_s >= deadline:
                raise Unreachable(sorted(self._endpoints), reason, may_be_done=may_be_done)
            await trio.sleep(pause_s)

    @asynccontextmanager
    async def stream(
        self, path: str, messages: Sequence[Json]
    ) -> AsyncIterator[AsyncIterator[Json]]:
        """The messages that etcd sends on a stream after these messages; Unreachable, EtcdError.

        After the end of a stream, for whatever reason, the gateway changes to the next endpoint.
        """
        endpoint = self._endpoints[0]
        content = "\n".join(map(json.dumps, messages)).encode()
        try:
            sent = self._client.stream(endpoint, f"/v3/{path}", self._headers(endpoint), content)
            async with sent as answer:
                if answer.status != 200:
                    raise _error(answer.status, answer.content)
                yield _Messages(answer.lines)
        except HttpError as error:
            raise Unreachable(self._endpoints, str(error), may_be_done=True) from error
        finally:
            with trio.CancelScope(shield=True):
                await self._leave_endpoint(endpoint)

    async def _leave_endpoint(self, endpoint: str) -> None:
        """Use the next endpoint from now on, unless another call has already changed to it."""
        await self._client.drop(endpoint)
        if self._endpoints[0] == endpoint:
            self._endpoints.append(self._endpoints.pop(0))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _attempt(self, path: str, content: bytes) -> Json:
        """One attempt at an endpoint while other endpoints exist; also raises _LeaderChanged."""
        if len(self._endpoints) == 1:
            return await self._authenticated(path, content)
        answer: Json = {}
        outcomes: list[Exception] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look_after, nursery.cancel_scope, outcomes)
            try:
                answer = await self._authenticated(path, content)
            except (HttpError, EtcdError, StoreUnusable) as error:
                outcomes.append(error)
            nursery.cancel_scope.cancel()
        for outcome in outcomes:
            raise outcome
        self._term = max(self._term, _term_of(answer))
        return answer

    async def _look_after(self, call: trio.CancelScope, outcomes: list[Exception]) -> None:
        """Cancel a call whose answer won't come, and add the reason to its outcomes."""
        endpoint, term = self._endpoints[0], self._term
        await trio.sleep(SILENT_S)
        while True:
            try:
                with trio.fail_after(STATUS_S):
                    headers = self._headers(endpoint)
                    target = "/v3/maintenance/status"
                    answer = await self._client.post(endpoint, target, headers, b"{}")
                status: Json = json.loads(answer.content)
            except (HttpError, trio.TooSlowError, ValueError):
                outcomes.append(HttpError(f"it doesn't say who leads within {STATUS_S:g} s"))
                break
            if status.get("leader") and _term_of(status) > term:
                self._term = _term_of(status)
                outcomes.append(_LeaderChanged())
                break
            await trio.sleep(LOOK_EVERY_S)
        call.cancel()

    async def _authenticated(self, path: str, content: bytes) -> Json:
        """One attempt; a call whose token is too old is repeated with a new one."""
        if self._access.username is not None and self._token is None:
            await self._authenticate()
        try:
            return await self._permitted(path, content)
        except EtcdError as error:
            if not any(text in error.message for text in _OLD_TOKEN):
                raise
            if self._access.username is None:
                raise StoreUnusable(
                    f"etcd at {self._endpoints[0]} wants a user: set {SETTING}.username and "
                    f"{SETTING}.password"
                ) from error
        await self._authenticate()
        return await self._permitted(path, content)

    async def _permitted(self, path: str, content: bytes) -> Json:
        """The answer to a call; StoreUnusable if the user may not make it, EtcdError."""
        try:
            return await self._post(path, content)
        except EtcdError as error:
            if error.code == DENIED:
                raise StoreUnusable(_denied(self._access.username)) from error
            raise

    async def _authenticate(self) -> None:
        access = self._access
        user = {"name": access.username, "password": access.password or ""}
        self._token = ""
        try:
            answer = await self._post("auth/authenticate", json.dumps(user).encode())
        except EtcdError as error:
            self._token = None
            if _NO_AUTHENTICATION in error.message:
                self._token = ""  # this etcd needs no login at the moment
                return
            if error.code in _TRY_ELSEWHERE:
                raise
            raise StoreUnusable(
                f"etcd refused the user {access.username}: {error.message}; check "
                f"{SETTING}.username and {SETTING}.password"
            ) from error
        self._token = str(answer["token"])

    async def _post(self, path: str, content: bytes) -> Json:
        endpoint = self._endpoints[0]
        headers = self._headers(endpoint)
        answer = await self._client.post(endpoint, f"/v3/{path}", headers, content)
        try:
            found: Json = json.loads(answer.content)
        except ValueError:
            raise NotEtcd(answer.status, answer.content) from None
        if answer.status != 200 or not isinstance(found, dict) or "error" in found:
            raise _error(answer.status, answer.content)
        return found

    def _headers(self, endpoint: str) -> Headers:
        headers = [("Host", endpoint)]
        if self._token:
            headers.append(("Authorization", self._token))
        return headers


def _term_of(answer: Json) -> int:
    """The term of etcd's leader when it answered; 0 if the answer has none."""
    header = answer.get("header") or answer.get("result", {}).get("header", {})
    return int(header.get("raft_term", 0))


def _error(status: int, content: bytes) -> EtcdError:
    """The error in a response, which may come from another program than etcd."""
    try:
        found = json.loads(content)
        error = found["error"]
        if isinstance(error, dict):  # the error of a stream
            return EtcdError(int(error["grpc_code"]), str(error["message"]))
        return EtcdError(int(found["code"]), str(error))
    except (ValueError, LookupError, TypeError):
        return NotEtcd(status, content)


def _check_version(status: Json, endpoint: str) -> None:
    """StoreUnusable if the etcd with this status is too old."""
    version = str(status.get("version", "0.0"))
    if tuple(int(number) for number in version.split(".")[:2]) < OLDEST:
        raise StoreUnusable(f"etcd at {endpoint} has version {version}; kwire needs 3.4 or newer")


def _denied(username: str | None) -> str:
    return (
        f"etcd denies the user {username} what kwire needs: give its role read and write access to "
        "the prefix (etcdctl role grant-permission ROLE readwrite --prefix=true PREFIX/)"
    )


def _new_context(access: Access) -> "Callable[[], ssl.SSLContext]":
    """The function that makes the TLS context of a connection; StoreUnusable."""
    from kwire.metadata.etcd.tls import EtcdTls

    return EtcdTls(access).current

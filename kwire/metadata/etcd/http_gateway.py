"""Calls of a real etcd's JSON gateway, with httpx.

Rules:

- An endpoint that doesn't answer, or that answers that its cluster has no leader, is left for the
  next one. The other calls follow it there.
- A token is fetched with user and password when etcd asks for one. Tokens expire after minutes
  without use, and when users or roles change; then a new one is fetched.
"""

import json
import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import httpx
import trio

from kwire.config.metadata_store import SETTING, EtcdAddress
from kwire.metadata.etcd.gateway import (
    CALL_S,
    UNAVAILABLE,
    Access,
    Answered,
    EtcdError,
    Unreachable,
)
from kwire.metadata.etcd.transactions import Json
from kwire.metadata.store import StoreUnusable

logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every call

CONNECT_S, ANSWER_S = 1.0, 2.0
PAUSE_S = 0.1
"""The mean pause after every endpoint has failed."""

OLDEST = (3, 4)
"""The oldest version of etcd; older ones have another gateway."""

CANCELLED, DEADLINE, DENIED = 1, 4, 7
_TRY_ELSEWHERE = {CANCELLED, DEADLINE, UNAVAILABLE}
_NO_AUTHENTICATION = "authentication is not enabled"
_OLD_TOKEN = ("invalid auth token", "revision in header is old", "user name is empty")


class _Body(httpx.AsyncByteStream):
    """The body of a request. httpx's own is a generator, which complains of a cancelled call."""

    def __init__(self, content: bytes) -> None:
        self._left = [content]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class HttpGateway:
    """The gateway of a real etcd, over HTTP."""

    def __init__(self, address: EtcdAddress, access: Access, random: Random) -> None:
        """StoreUnusable where a file for TLS can't be used."""
        self._endpoints = list(address.endpoints)
        random.shuffle(self._endpoints)  # or all brokers would ask the same one
        self._scheme = "https" if address.is_tls else "http"
        self._access = access
        self._random = random
        self._token: str | None = None
        timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
        verify = _tls(access) if address.is_tls else True
        self._client = httpx.AsyncClient(timeout=timeout, verify=verify, trust_env=False)

    async def open(self) -> None:
        """Check that etcd answers and isn't too old; StoreUnusable, Unreachable."""
        answer = await self.call("maintenance/status", {})
        version = str(answer.body.get("version", "0.0"))
        if tuple(int(number) for number in version.split(".")[:2]) < OLDEST:
            raise StoreUnusable(
                f"etcd at {self._endpoints[0]} has version {version}; kwire needs 3.4 or newer"
            )

    async def call(self, path: str, body: Json, within_s: float = CALL_S) -> Answered:
        """The answer to a call; Unreachable, EtcdError, StoreUnusable."""
        deadline = trio.current_time() + within_s
        content = json.dumps(body).encode()
        may_be_done, failures = False, 0
        while True:
            endpoint, left_s = self._endpoints[0], deadline - trio.current_time()
            try:
                with trio.fail_after(max(left_s, 0)):
                    return Answered(await self._authenticated(path, content), may_be_done)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                _check_certificate(error, endpoint)
                reason = _reason(error)
            except (httpx.HTTPError, trio.TooSlowError) as error:
                reason, may_be_done = _reason(error), True
            except EtcdError as error:
                if error.code not in _TRY_ELSEWHERE:
                    raise
                reason, may_be_done = error.message, True
            self._leave(endpoint)
            failures += 1
            pause_s = 0.0
            if failures % len(self._endpoints) == 0:
                pause_s = self._random.uniform(0.5, 1.5) * PAUSE_S
            if trio.current_time() + pause_s >= deadline:
                raise Unreachable(sorted(self._endpoints), reason, may_be_done=may_be_done)
            await trio.sleep(pause_s)

    @asynccontextmanager
    async def stream(
        self, path: str, messages: Sequence[Json]
    ) -> AsyncIterator[AsyncIterator[Json]]:
        """What etcd sends on a stream after these messages; Unreachable, EtcdError.

        A stream that has ended, for whatever reason, leaves its endpoint.
        """
        request = self._request(path, "\n".join(map(json.dumps, messages)).encode())
        request.extensions["timeout"] = httpx.Timeout(None, connect=CONNECT_S).as_dict()
        endpoint = self._endpoints[0]
        try:
            response = await self._client.send(request, stream=True)
            try:
                if response.status_code != 200:
                    raise _error(await response.aread())
                yield self._messages(response.aiter_lines())
            finally:
                await response.aclose()
        except httpx.HTTPError as error:
            raise Unreachable(self._endpoints, _reason(error), may_be_done=True) from error
        finally:
            self._leave(endpoint)

    async def _messages(self, lines: AsyncIterator[str]) -> AsyncIterator[Json]:
        async for line in lines:
            found = json.loads(line)
            if "error" in found:
                raise _error(line.encode())
            yield found["result"]

    def _leave(self, endpoint: str) -> None:
        """Use the next endpoint from now on, unless another call has changed it already."""
        if self._endpoints[0] == endpoint:
            self._endpoints.append(self._endpoints.pop(0))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _authenticated(self, path: str, content: bytes) -> Json:
        """One attempt; a call whose token is too old is repeated with a new one."""
        if self._access.username is not None and self._token is None:
            await self._authenticate()
        try:
            return await self._post(path, content)
        except EtcdError as error:
            if error.code == DENIED:
                raise StoreUnusable(_denied(self._access.username)) from error
            if not any(text in error.message for text in _OLD_TOKEN):
                raise
            if self._access.username is None:
                raise StoreUnusable(
                    f"etcd at {self._endpoints[0]} wants a user: set {SETTING}.username and "
                    f"{SETTING}.password"
                ) from error
        await self._authenticate()
        return await self._post(path, content)

    async def _authenticate(self) -> None:
        access = self._access
        user = {"name": access.username, "password": access.password or ""}
        self._token = ""
        try:
            answer = await self._post("auth/authenticate", json.dumps(user).encode())
        except EtcdError as error:
            self._token = None
            if _NO_AUTHENTICATION in error.message:
                self._token = ""  # this etcd lets everybody in, as long as it is so
                return
            if error.code in _TRY_ELSEWHERE:
                raise
            raise StoreUnusable(
                f"etcd refused the user {access.username}: {error.message}; check "
                f"{SETTING}.username and {SETTING}.password"
            ) from error
        self._token = str(answer["token"])

    async def _post(self, path: str, content: bytes) -> Json:
        response = await self._client.send(self._request(path, content))
        if response.status_code != 200:
            raise _error(response.content)
        found: Json = json.loads(response.content)
        if "error" in found:
            raise _error(response.content)
        return found

    def _request(self, path: str, content: bytes) -> httpx.Request:
        endpoint = self._endpoints[0]
        headers = {"Host": endpoint, "Content-Length": str(len(content))}
        if self._token:
            headers["Authorization"] = self._token
        url = f"{self._scheme}://{endpoint}/v3/{path}"
        return httpx.Request("POST", url, headers=headers, stream=_Body(content))


def _error(content: bytes) -> EtcdError:
    """The error in a response, which needn't be etcd's."""
    try:
        found = json.loads(content)
        error = found["error"]
        if isinstance(error, dict):  # of a stream
            return EtcdError(int(error["grpc_code"]), str(error["message"]))
        return EtcdError(int(found["code"]), str(error))
    except (ValueError, LookupError, TypeError):
        return EtcdError(UNAVAILABLE, f"no answer of etcd's gateway: {content[:100]!r}")


def _check_certificate(error: BaseException, endpoint: str) -> None:
    """StoreUnusable if an error comes from a certificate that isn't trusted."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLCertVerificationError):
            raise StoreUnusable(
                f"etcd at {endpoint} shows a certificate that isn't trusted: "
                f"{found.verify_message}; set {SETTING}.tls.ca.file to the CA's certificate"
            ) from error
        found = found.__cause__ or found.__context__


def _reason(error: BaseException) -> str:
    """What an error says, or the first error that led to it and says something."""
    found: BaseException | None = error
    while found is not None and not str(found):
        found = found.__cause__ or found.__context__
    return type(error).__name__ if found is None else str(found)


def _denied(username: str | None) -> str:
    return (
        f"etcd denies the user {username} what kwire needs: give its role read and write access to "
        "the prefix (etcdctl role grant-permission ROLE readwrite --prefix=true PREFIX/)"
    )


def _tls(access: Access) -> ssl.SSLContext:
    """The context for TLS; the system's CAs are trusted where no file names others."""
    for name, file in zip(Access._fields, access, strict=True):
        if name.endswith("_file") and file is not None and not Path(file).is_file():
            setting = f"{SETTING}.tls.{name.replace('_', '.')}"
            raise StoreUnusable(f"{setting}={file}: this file does not exist")
    try:
        context = ssl.create_default_context(cafile=access.ca_file)
        if access.certificate_file is not None:
            context.load_cert_chain(access.certificate_file, access.key_file)
    except (ssl.SSLError, OSError) as error:
        raise StoreUnusable(f"{SETTING}.tls: the files can't be used: {error}") from error
    return context

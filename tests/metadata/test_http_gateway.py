"""The gateway of an etcd: which versions it accepts, what it waits for, calls without answers."""

import json
import ssl
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
import trio

from kwire.config.metadata_store import EtcdAddress
from kwire.metadata.etcd import http_gateway
from kwire.metadata.etcd.gateway import Access, Unreachable
from kwire.metadata.etcd.http_gateway import HttpGateway
from kwire.metadata.store import StoreUnusable
from tests.metadata.test_http_client import Server, serving
from tests.support.certificates import Authority
from tests.support.ports import free_port


def _telling(version: str):
    """Answers every request with the status of an etcd of this version."""
    answer = _answer(version=version, leader="1")

    async def serve(server: Server, stream) -> None:
        while await server.receive(stream):
            await stream.send_all(answer)

    return serve


@pytest.mark.parametrize("version", ["3.3.27", "2.3.8", "0.0"])
async def test_an_etcd_that_is_too_old_is_refused(version: str):
    """In one line that says which version it has, and which one is needed."""
    async with serving(_telling(version)) as (server, _):
        gateway = HttpGateway(EtcdAddress((server.endpoint,), "p", False), Access(), Random(1))
        told = f"etcd at {server.endpoint} has version {version}; kwire needs 3.4 or newer"
        with pytest.raises(StoreUnusable) as refused:
            await gateway.open()
        assert str(refused.value) == told
        await gateway.close()


@pytest.mark.parametrize("version", ["3.4.23", "3.10.0", "4.0.0"])
async def test_newer_ones_are_accepted(version: str):
    """Numbers are compared, not their digits."""
    async with serving(_telling(version)) as (server, _):
        gateway = HttpGateway(EtcdAddress((server.endpoint,), "p", False), Access(), Random(1))
        await gateway.open()
        await gateway.close()


def _http(status: str, content: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (
        status.encode(),
        len(content),
        content,
    )


def _answer(**body: object) -> bytes:
    return _http("200 OK", json.dumps(body).encode())


def _giving(*answers: bytes, is_ready: Callable[[], object] = lambda: True):
    """Gives these answers, one for each request, and the last one again and again.

    The first answer is given until ``is_ready``.
    """
    left = list(answers)

    async def serve(server: Server, stream) -> None:
        with suppress(trio.BrokenResourceError):  # the client has given up a request
            while await server.receive(stream):
                await stream.send_all(left[0])
                if len(left) > 1 and is_ready():
                    left.pop(0)

    return serve


READY = _answer(version="3.5.1", leader="1")
PROXY = _http("502 Bad Gateway", b"<html>")


class InOrder(Random):
    """Has a gateway ask the endpoints in the order in which they are named."""

    def shuffle(self, x) -> None:
        """Leave them as they are."""


async def _open(*endpoints: str, patience_s: float = 15, is_tls: bool = False) -> None:
    """Open a gateway that asks the endpoints in this order."""
    gateway = HttpGateway(EtcdAddress(endpoints, "p", is_tls), Access(), InOrder())
    try:
        await gateway.open(patience_s)
    finally:
        await gateway.close()


@pytest.mark.parametrize("first", [PROXY, _answer(version="3.5.1"), _http("503 Busy", b"")])
async def test_what_may_pass_is_waited_for(first: bytes, caplog, monkeypatch):
    """A proxy whose etcd isn't there yet, a cluster that elects its first leader; one line."""
    monkeypatch.setattr(http_gateway, "PAUSE_S", 0.001)
    monkeypatch.setattr(http_gateway, "TELL_AFTER_S", 0.1)
    caplog.set_level("INFO")
    serve = _giving(first, READY, is_ready=lambda: caplog.messages)
    async with serving(serve) as (server, _):
        await _open(server.endpoint)
    (line,) = caplog.messages
    assert line.startswith(f"waiting up to 15 s for etcd: no answer from etcd at {server.endpoint}")


async def test_nothing_is_said_of_an_etcd_that_answers(caplog):
    """The usual start has no line about etcd."""
    caplog.set_level("INFO")
    async with serving(_giving(READY)) as (server, _):
        await _open(server.endpoint)
    assert not caplog.messages


async def test_the_wait_ends():
    """The error has the last reason; a proxy's is what it has answered."""
    async with serving(_giving(PROXY)) as (server, _):
        with pytest.raises(Unreachable, match="HTTP 502 '<html>' is no answer of etcd's gateway"):
            await _open(server.endpoint, patience_s=0.2)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (_http("404 Not Found", b"no"), "no etcd answers .* name etcd's client port in"),
        (_http("200 OK", b"<html>"), "no etcd answers .*enable-grpc-gateway: true"),
        (_http("200 OK", b"[]"), r"no etcd answers .*: HTTP 200 '\[\]' is no answer of etcd"),
        (b"220 mail.example.com ESMTP\r\n\r\n", "no etcd answers .*: it doesn't speak HTTP"),
        (_http("401 Unauthorized", b""), "a proxy at .* wants a login of its own: HTTP 401"),
        (
            _http("400 Bad Request", b"Client sent an HTTP request to an HTTPS server.\n"),
            "speaks TLS: write etcds:// instead of etcd://",
        ),
    ],
)
async def test_what_does_not_pass_ends_the_start_at_once(answer: bytes, says: str, caplog):
    """With one line that says what to do, unless another endpoint is an etcd."""
    caplog.set_level("INFO")
    async with serving(_giving(answer)) as (wrong, _), serving(_giving(READY)) as (right, _):
        with pytest.raises(StoreUnusable, match=says) as refused:
            await _open(wrong.endpoint)
        assert wrong.endpoint in str(refused.value)
        with pytest.raises(StoreUnusable, match=says):
            await _open(f"127.0.0.1:{free_port()}", wrong.endpoint)
        await _open(wrong.endpoint, right.endpoint)
    assert "\n" not in str(refused.value)
    assert not caplog.messages


@pytest.mark.parametrize(
    ("name", "days", "says"),
    [
        (
            "127.0.0.1",
            None,
            r"other names: .* has 127\.0\.0\.1 among its subject alternative names",
        ),
        ("etcd", -1, "shows a certificate that has expired; give etcd a new one"),
    ],
)
async def test_certificates_that_do_not_fit(tmp_path, name: str, days: int | None, says: str):
    """One that has only a common name, and one of yesterday: one line says what to do."""
    authority = Authority(name)
    shown = authority if days is None else authority.sign(name, days=days)
    ca = tmp_path / "ca.pem"
    ca.write_text(authority.certificate_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(shown.write_pem(tmp_path / "shown.pem"))

    async def refuse(server: Server, stream) -> None:
        with suppress(trio.BrokenResourceError):
            await trio.SSLStream(stream, context, server_side=True).do_handshake()

    async with serving(refuse) as (server, _):
        address = EtcdAddress((server.endpoint,), "p", True)
        gateway = HttpGateway(address, Access(ca_file=str(ca)), Random(1))
        with pytest.raises(StoreUnusable, match=says):
            await gateway.open()
        await gateway.close()


async def test_an_endpoint_that_turns_wrong_later_is_only_left():
    """A broker goes on with the others, or waits for them, as when etcd is away."""
    wrong = _http("404 Not Found", b"")
    async with serving(_giving(READY, wrong)) as (server, _):
        gateway = HttpGateway(EtcdAddress((server.endpoint,), "p", False), Access(), Random(1))
        await gateway.open()
        with pytest.raises(Unreachable, match="no etcd answers at"):
            await gateway.call("kv/range", {}, 0.5)
        await gateway.close()


def _member(*, writes: list[int], term: int, says: str):
    """An etcd that loses its first write, and then is in this term and says this of the leader."""

    async def serve(server: Server, stream) -> None:
        while await server.receive(stream):
            request = server.received[-1]
            if b"maintenance/status" in request:
                header = {"raft_term": str(term)}
                await stream.send_all(_answer(header=header, version="3.5.1", leader=says))
            elif b"kv/txn" in request:
                writes.append(1)
                if len(writes) > 1:
                    await stream.send_all(_answer(header={"raft_term": str(term)}, succeeded=True))

    return serve


async def test_a_write_that_went_to_a_dead_leader_is_sent_again():
    """To the same member, as soon as it knows the next leader; it isn't waited for in vain."""
    writes: list[int] = []
    async with serving(_member(writes=writes, term=3, says="2")) as (server, _):
        other = f"127.0.0.1:{free_port()}"
        gateway = HttpGateway(EtcdAddress((server.endpoint, other), "p", False), Access(), Random())
        answered = await gateway.call("kv/txn", {})
        assert answered.body["succeeded"]
        assert answered.is_repeated
        assert len(writes) == 2
        await gateway.close()


async def test_a_member_that_is_only_slow_is_waited_for():
    """It says that nothing has changed; so the write is sent once, and its answer comes."""
    writes: list[int] = []
    asked = trio.Event()

    async def serve(server: Server, stream) -> None:
        while await server.receive(stream):
            if b"maintenance/status" in server.received[-1]:
                await stream.send_all(_answer(header={"raft_term": "3"}, leader="2"))
                asked.set()
            else:
                writes.append(1)
                if len(writes) > 1:
                    await asked.wait()
                await stream.send_all(_answer(header={"raft_term": "3"}, succeeded=True))

    async with serving(serve) as (server, _):
        other = f"127.0.0.1:{free_port()}"
        gateway = HttpGateway(
            EtcdAddress((server.endpoint, other), "p", False), Access(), Random(2)
        )
        await gateway.call("kv/txn", {})  # from its answer the gateway knows the term
        assert not (await gateway.call("kv/txn", {})).is_repeated
        assert len(writes) == 2
        assert asked.is_set()
        await gateway.close()


async def test_a_member_that_hangs_is_left():
    """One that doesn't even say who leads, as after SIGSTOP: the next one is asked."""
    writes: list[int] = [1]

    async def hang(server: Server, stream) -> None:
        while await server.receive(stream):
            pass

    async with (
        serving(hang) as (hanging, _),
        serving(_member(writes=writes, term=3, says="2")) as (server, _),
    ):
        endpoints = hanging.endpoint, server.endpoint
        gateway = HttpGateway(EtcdAddress(endpoints, "p", False), Access(), InOrder())
        answered = await gateway.call("kv/txn", {})
        assert answered.body["succeeded"]
        assert answered.is_repeated
        await gateway.close()


async def test_what_a_user_may_not_do_is_told_also_after_a_new_token():
    """etcd's old token and its refusal come one after the other when roles change."""
    token = _answer(token="t")
    old = _http("401 Unauthorized", b'{"error": "invalid auth token", "code": 16}')
    denied = _http("403 Forbidden", b'{"error": "permission denied", "code": 7}')
    async with serving(_giving(token, old, token, denied)) as (server, _):
        address = EtcdAddress((server.endpoint,), "p", False)
        gateway = HttpGateway(address, Access("other", "secret"), InOrder())
        with pytest.raises(StoreUnusable, match="denies the user other"):
            await gateway.call("kv/txn", {})
        await gateway.close()


async def test_a_stream_is_read_from_the_endpoint_in_use_and_the_next_one_from_the_next():
    """A watch that has ended isn't asked for again at the member that may have lost it."""
    first, second = (_http("200 OK", b'{"result": {"member": %d}}\n' % n) for n in (1, 2))
    async with serving(_giving(first)) as (one, _), serving(_giving(second)) as (two, _):
        endpoints = one.endpoint, two.endpoint
        gateway = HttpGateway(EtcdAddress(endpoints, "p", False), Access(), InOrder())
        told: list[dict[str, int]] = []
        for _ in range(3):
            async with gateway.stream("watch", [{}]) as messages:
                told += [message async for message in messages]
        assert [message["member"] for message in told] == [1, 2, 1]
        await gateway.close()


async def test_the_member_that_wants_a_user_is_named():
    """Not another one, which may be an etcd without users."""
    nameless = _http("400 Bad Request", b'{"error": "user name is empty", "code": 3}')
    async with serving(_giving(nameless)) as (wanting, _), serving(_giving(READY)) as (other, _):
        with pytest.raises(StoreUnusable, match=f"etcd at {wanting.endpoint} wants a user"):
            await _open(wanting.endpoint, other.endpoint)

"""The gateway of an etcd: which versions it accepts, and calls that get no answer."""

import json
from random import Random

import pytest
import trio

from kwire.config.metadata_store import EtcdAddress
from kwire.metadata.etcd.gateway import Access
from kwire.metadata.etcd.http_gateway import HttpGateway
from kwire.metadata.store import StoreUnusable
from kwire.testing.ports import free_port
from tests.metadata.test_http_client import Server, serving


def _telling(version: str):
    """Answers every request with the status of an etcd of this version."""
    body = json.dumps({"version": version}).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

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


def _answer(**body: object) -> bytes:
    content = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)


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
                await asked.wait()
                await stream.send_all(_answer(header={"raft_term": "3"}, succeeded=True))

    async with serving(serve) as (server, _):
        other = f"127.0.0.1:{free_port()}"
        gateway = HttpGateway(
            EtcdAddress((server.endpoint, other), "p", False), Access(), Random(2)
        )
        gateway._term = 3
        assert not (await gateway.call("kv/txn", {})).is_repeated
        assert len(writes) == 1
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
        gateway = HttpGateway(EtcdAddress(endpoints, "p", False), Access(), Random(1))
        gateway._endpoints = list(endpoints)
        answered = await gateway.call("kv/txn", {})
        assert answered.body["succeeded"]
        assert answered.is_repeated
        await gateway.close()

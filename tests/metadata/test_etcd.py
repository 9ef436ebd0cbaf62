"""The store on real etcds: one that dies or hangs, passwords, TLS, and addresses that are wrong."""

from contextlib import aclosing
from uuid import uuid4

import pytest
import trio

from kwire.config.metadata_store import parse_store
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import ProducerIdsAllocated
from kwire.metadata.etcd.gateway import Access
from kwire.metadata.store import Member, OutcomeUnknown, StoreUnusable
from tests.metadata.real_etcd import PREFIX, allow, post, with_certificates
from tests.metadata.stores import need_etcd, open_etcd
from tests.metadata.test_http_client import Server, serving
from tests.support.etcd import Etcd
from tests.support.ports import free_port

pytestmark = pytest.mark.processes
WAIT_S = 30


@pytest.fixture(scope="module")
def three():
    """Three etcds."""
    need_etcd()
    with Etcd(3) as etcd:
        yield etcd


def _address(etcd: Etcd):
    return parse_store(f"{etcd.url}/{uuid4()}")


@pytest.mark.parametrize("fault", ["kill", "pause"])
async def test_commits_go_on_when_the_leader_of_etcd_fails(three, fault):
    """P11: nothing is lost or doubled, and the session survives."""
    store = await open_etcd(_address(three), 1)
    seen: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.run)
        session = await store.begin_session(Member(1, "a"), 9000)

        async def watch() -> None:
            async with aclosing(store.watch(0)) as commits:
                async for commit in commits:
                    seen.extend(change.next_producer_id for change in commit.changes)
                    if len(seen) == 20:
                        return

        nursery.start_soon(watch)
        leader = three.leader
        with trio.fail_after(WAIT_S):
            for revision in range(20):
                if revision == 10:
                    getattr(leader, fault)()
                while True:
                    try:
                        await store.commit(revision, [ProducerIdsAllocated(revision)])
                        break
                    except OutcomeUnknown:
                        continue
            while len(seen) < 20:
                await trio.lowlevel.checkpoint()
        assert seen == list(range(20))
        assert not session.is_over
        nursery.cancel_scope.cancel()
    await store.close()
    if fault == "kill":
        leader.start()
        leader.wait_ready()
    else:
        leader.resume()


async def test_nobody_answers(autojump_clock):
    """The error names the addresses and says why."""
    address = parse_store(f"etcd://127.0.0.1:{free_port()},127.0.0.1:{free_port()}")
    with pytest.raises(KafkaError) as refused:
        await open_etcd(address, 1)
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert all(endpoint in refused.value.message for endpoint in address.endpoints)


async def _read(address, access: Access) -> None:
    store = await open_etcd(address, 3, access)
    try:
        await store.read()
    finally:
        await store.close()


async def test_users_and_passwords():
    """A token that is too old is fetched anew; a wrong password is one line."""
    need_etcd()
    with Etcd() as etcd:
        allow(etcd)
        address = parse_store(f"{etcd.url}/{PREFIX}/{uuid4()}")
        early = await open_etcd(address, 1, Access("kwire", "secret"))
        assert await early.commit(0, [ProducerIdsAllocated(1)]) == 1
        post(etcd, "auth/enable", {})
        assert await early.commit(1, [ProducerIdsAllocated(2)]) == 2
        token = post(etcd, "auth/authenticate", {"name": "root", "password": "secret"})["token"]
        post(etcd, "auth/user/add", {"name": "other", "password": "secret"}, token)
        assert await early.commit(2, [ProducerIdsAllocated(3)]) == 3
        store = await open_etcd(address, 2, Access("kwire", "secret"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            async with aclosing(store.watch(2)) as commits:
                with trio.fail_after(WAIT_S):
                    assert (await anext(commits)).revision == 3
            nursery.cancel_scope.cancel()
        await store.close()
        await early.close()
        wrong = [(Access("kwire", "wrong"), "refused the user kwire"), (Access(), "wants a user")]
        wrong.append((Access("other", "secret"), "denies the user other"))
        for access, says in wrong:
            with pytest.raises(StoreUnusable, match=says):
                await _read(address, access)


async def test_tls(tmp_path):
    """etcd shows a certificate and asks for one; what doesn't fit is one line."""
    need_etcd()
    with with_certificates(tmp_path) as (etcd, access):
        address = parse_store(etcd.url)
        assert address.is_tls
        store = await open_etcd(address, 1, access, WAIT_S)
        assert await store.commit(0, [ProducerIdsAllocated(1)]) == 1
        await store.close()
        only_ca = Access(ca_file=access.ca_file)
        for wrong, says in (
            (Access(), r"a certificate that isn't trusted.*tls\.ca\.file"),
            (only_ca, r"refuses this broker's certificate, or that .*tls\.certificate\.file"),
        ):
            with pytest.raises(StoreUnusable, match=says):
                await open_etcd(address, 1, wrong)
        with pytest.raises(KafkaError, match="if etcd speaks TLS, write etcds:// instead of etcd"):
            await open_etcd(address._replace(is_tls=False), 1, patience_s=0.5)
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(StoreUnusable, match=r"tls\.ca\.file=.*missing\.pem: .* does not exist"):
        await open_etcd(address, 1, Access(None, None, missing))


async def test_tls_towards_an_etcd_without():
    """It closes the connection without a word, as one that stops: it is waited for, with a hint."""
    need_etcd()
    with Etcd() as etcd:
        address = _address(etcd)._replace(is_tls=True)
        with pytest.raises(KafkaError, match="if etcd speaks no TLS, write etcd:// instead of"):
            await open_etcd(address, 1, patience_s=0.5)


async def test_an_answer_that_is_not_etcds():
    """Some other server listens there."""

    async def serve(server: Server, stream) -> None:
        while await server.receive(stream):
            await stream.send_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno")

    async with serving(serve) as (server, _):
        with pytest.raises(StoreUnusable, match="HTTP 404 'no' is no answer of etcd's gateway"):
            await open_etcd(parse_store(f"etcd://{server.endpoint}"), 1)

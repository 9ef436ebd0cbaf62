"""The gateway of an etcd: which versions it accepts."""

import json
from random import Random

import pytest

from kwire.config.metadata_store import EtcdAddress
from kwire.metadata.etcd.gateway import Access
from kwire.metadata.etcd.http_gateway import HttpGateway
from kwire.metadata.store import StoreUnusable
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

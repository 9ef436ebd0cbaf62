"""The four stores, with three ways into etcd; several brokers share one truth in each of them.

``OPENERS`` has a context manager for each. What it yields gives every broker its own store, whose
tasks run already. An etcd of each kind is started once for all tests of a process.
"""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
import trio

from kwire.clock import steady_clock_ms
from kwire.config.metadata_store import parse_store
from kwire.metadata.embedded import FILE_NAME, EmbeddedStore
from kwire.metadata.etcd.etcd_store import EtcdStore
from kwire.metadata.etcd.gateway import CALL_S, Access
from kwire.metadata.store import MetadataStore
from kwire.metadata.supervised.client import SupervisedStore
from kwire.metadata.supervised.server import serve_worker
from kwire.metadata.supervised.turns import Turns
from kwire.testing.simulated_etcd import SimulatedEtcd, simulated_store
from tests.metadata.real_etcd import KINDS, PREFIX, Running
from tests.support.etcd import MISSING, START_TIMEOUT_S, find_etcd

KEEP_EVERY_MS = 500

Open = Callable[[int], Awaitable[MetadataStore]]
"""Gives a broker its store."""


@asynccontextmanager
async def embedded(tmp_path: Path, etcd: object) -> AsyncIterator[Open]:
    """All brokers are in one process and have one store."""
    store = EmbeddedStore.open(tmp_path / FILE_NAME, is_durable=False)

    async def open_store(node_id: int) -> MetadataStore:
        return store

    yield open_store
    await store.close()


@asynccontextmanager
async def supervised(tmp_path: Path, etcd: object) -> AsyncIterator[Open]:
    """Every broker is a worker of one supervisor."""
    store, turns = EmbeddedStore.open(tmp_path / FILE_NAME, is_durable=False), Turns()
    async with trio.open_nursery() as nursery:

        async def open_store(node_id: int) -> MetadataStore:
            ours, theirs = socket.socketpair()
            nursery.start_soon(serve_worker, _stream(theirs), store, turns)
            worker = SupervisedStore(_stream(ours))
            nursery.start_soon(worker.run)
            return worker

        yield open_store
        nursery.cancel_scope.cancel()
    await store.close()


def _stream(raw: socket.socket) -> trio.SocketStream:
    return trio.SocketStream(trio.socket.from_stdlib_socket(raw))


@asynccontextmanager
async def simulated(tmp_path: Path, etcd: object) -> AsyncIterator[Open]:
    """etcd in memory, without faults."""
    simulation = SimulatedEtcd(Random(1))
    writers = count()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(simulation.run)

        async def open_store(node_id: int) -> MetadataStore:
            name = f"{node_id}:{next(writers)}"
            store = simulated_store(simulation.gateway(), name, Random(1), KEEP_EVERY_MS)
            nursery.start_soon(store.run)
            return store

        yield open_store
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def real(tmp_path: Path, etcd: Callable[[str], Running], kind: str) -> AsyncIterator[Open]:
    """A real etcd; each test has a prefix of its own."""
    running = etcd(kind)
    address = parse_store(f"{running.etcd.url}/{PREFIX}/{uuid4()}")
    stores = []
    async with trio.open_nursery() as nursery:

        async def open_store(node_id: int) -> MetadataStore:
            store = await open_etcd(address, node_id, running.access, START_TIMEOUT_S)
            stores.append(store)
            nursery.start_soon(store.run)
            return store

        yield open_store
        nursery.cancel_scope.cancel()
    for store in stores:
        await store.close()


async def open_etcd(
    address, node_id: int, access: Access | None = None, patience_s: float = CALL_S
) -> EtcdStore:
    """A broker's store on a real etcd, which may take ``patience_s`` to be there."""
    return await EtcdStore.open(
        address,
        access or Access(),
        f"{node_id}:{uuid4()}",
        random=Random(node_id),
        steady_ms=steady_clock_ms,
        keep_every_ms=KEEP_EVERY_MS,
        call_s=lambda: patience_s,
    )


OPENERS = {"embedded": embedded, "supervised": supervised, "simulated": simulated}
OPENERS |= {kind: partial(real, kind=kind) for kind in KINDS}


def need_etcd() -> None:
    """Skip the test where there is no etcd to run."""
    if find_etcd() is None:
        pytest.skip(MISSING)

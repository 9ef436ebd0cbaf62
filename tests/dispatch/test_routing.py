"""The first request of an API: a thread imports its modules, and no other client waits for that."""

import threading
from importlib import import_module

import pytest
import trio.testing

from kwire.coordinator.records import (
    GroupMetadataValue,
    OffsetCommitValue,
    group_metadata,
    offset_commit,
)
from kwire.dispatch import preloading, routing
from kwire.handlers import OWN_APIS
from kwire.protocol import decoding, encoding
from kwire.protocol.messages import message_classes
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kwire.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kwire.protocol.types import Schema
from kwire.testing.waiting import until
from tests.support.in_process import running_server

GROUPS = DescribeGroupsRequest(groups=[])
OFFSETS = ListOffsetsRequest(topics=[])


@pytest.mark.parametrize("api_key", OWN_APIS)
def test_an_api_of_kwires_own_has_messages_of_its_name(api_key):
    """Under its key, or its requests would find no handler."""
    request, response = message_classes(api_key)
    api = OWN_APIS[api_key]
    assert (request.__name__, request.API_KEY) == (f"{api.name}Request", api_key)
    assert (response.__name__, response.API_KEY) == (f"{api.name}Response", api_key)
    assert (api.min_version, api.max_version) == request.VERSIONS == response.VERSIONS


class Loads:
    """Stands for ``route``: notes the keys that are asked for, and by which kind of thread."""

    def __init__(self):
        self.on_loop, self.in_thread = [], []
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self.may_end.set()
        self._route = routing.route

    def __call__(self, api_key, version):
        """Give the route; in a thread, not before it may end."""
        if threading.current_thread() is threading.main_thread():
            self.on_loop.append(api_key)
        else:
            self.in_thread.append(api_key)
            self.has_begun.set()
            assert self.may_end.wait(10)
        return self._route(api_key, version)


@pytest.fixture
def loads(monkeypatch):
    """A process whose broker loads in threads, and has loaded nothing yet."""
    found = Loads()
    monkeypatch.setattr(routing, "route", found)
    routing.loaded_route.cache_clear()
    with routing.load_in_threads():
        yield found
    routing.loaded_route.cache_clear()


async def test_others_are_served_while_an_api_is_loaded(tmp_path, loads):
    """The imports for one client's first request keep no other client waiting."""
    async with running_server(tmp_path) as server:
        quick, slow = await server.connect(), await server.connect()
        await quick.request(OFFSETS, 7, ListOffsetsResponse)
        loads.has_begun.clear()
        loads.may_end.clear()
        await slow.send(GROUPS, 5)
        await slow.send(OFFSETS, 7)
        while not loads.has_begun.is_set():
            await quick.request(OFFSETS, 7, ListOffsetsResponse)
        await quick.request(OFFSETS, 7, ListOffsetsResponse)
        loads.may_end.set()
        orders = [int.from_bytes((await slow.receive_frame())[:4]) for _ in range(2)]
        assert orders == [1, 2]
    assert loads.in_thread == [OFFSETS.API_KEY, GROUPS.API_KEY]


async def test_an_api_is_loaded_once(tmp_path, loads):
    """Later requests, of any connection, are served on the spot."""
    async with running_server(tmp_path) as server:
        for _ in range(3):
            client = await server.connect()
            await client.request(GROUPS, 5, DescribeGroupsResponse)
    assert loads.in_thread == [GROUPS.API_KEY]
    assert loads.on_loop == [GROUPS.API_KEY]


async def test_clients_that_need_the_same_api_wait_for_one_thread(tmp_path, loads):
    """However many there are: a thread for each would keep the others waiting."""
    async with running_server(tmp_path) as server:
        loads.may_end.clear()
        clients = [await server.connect() for _ in range(20)]
        for client in clients:
            await client.send(GROUPS, 5)
        await until(loads.has_begun.is_set)
        await trio.testing.wait_all_tasks_blocked()
        loads.may_end.set()
        for client in clients:
            assert await client.receive_frame() is not None
    assert loads.in_thread == [GROUPS.API_KEY]


async def test_a_version_that_is_not_served_loads_nothing(tmp_path, loads):
    """The connection ends at once."""
    frame = bytes([0, 0, 0, 10, 0, 15, 0, 99, 0, 0, 0, 1, 255, 255])
    async with running_server(tmp_path) as server:
        client = await server.connect()
        await client.stream.send_all(frame)
        assert await client.is_closed()
    assert loads.in_thread == []


async def test_a_client_that_leaves_meanwhile_harms_nobody(tmp_path, loads):
    """The modules stay loaded for the next client."""
    async with running_server(tmp_path) as server:
        loads.may_end.clear()
        client = await server.connect()
        await client.send(GROUPS, 5)
        await client.aclose()
        other = await server.connect()
        loads.may_end.set()
        await other.request(GROUPS, 5, DescribeGroupsResponse)
    assert loads.in_thread in ([GROUPS.API_KEY], [GROUPS.API_KEY] * 2)


@pytest.mark.parametrize("api_key", [8, 9, 10, 11, 68])
def test_coordinators_are_loaded_with_what_needs_them(monkeypatch, loads, api_key):
    """They take longer than the handlers, which meet them on the event loop."""
    loaded = []
    monkeypatch.setattr(preloading, "load_coordinators", lambda: loaded.append(api_key))
    routing.NotLoaded(api_key, 0 if api_key == 68 else 6).load()
    assert loaded == [api_key]


def test_the_codecs_of_coordinators_are_generated_ahead(monkeypatch):
    """Of each record, in the version that is written: a millisecond each, on the event loop."""
    for name in preloading.RECORDS:
        module = import_module(name)
        schemas = {
            one
            for one in vars(module).values()
            if isinstance(one, type) and issubclass(one, Schema) and one.__module__ == name
        }
        assert {schema for schema, _ in module.WRITTEN} == schemas
    preloading.load_coordinators()
    generated = []
    for module, name in ((encoding, "generate_encoder"), (decoding, "generate_decoder")):
        monkeypatch.setattr(module, name, generated.append)
    value = GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol="range", leader="m", members=[]
    )
    commit = OffsetCommitValue(offset=1, metadata="", commit_timestamp=1)
    assert group_metadata("g", value).value
    assert offset_commit("g", "t", 0, commit).value
    assert not generated


async def test_compaction_is_imported_by_a_thread(tmp_path, loads, monkeypatch):
    """The first group makes the first compacted log, and all clients would wait for the import."""
    imported = []

    def noted(name):
        imported.append((name, threading.current_thread() is threading.main_thread()))

    monkeypatch.setattr("kwire.server.import_module", noted)
    async with running_server(tmp_path) as server:
        server.broker.compacts.set()
        await until(lambda: "compaction" in vars(server.broker))
    assert imported == [("kwire.broker.compaction", False)]

"""A client over its quota is answered at once and then not read, as KIP-219 says.

The clock of the quotas stands still, so that the waits are the same in every run.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import trio

from kwire.clock import Clock
from kwire.dispatch.metering import (
    ADD_PARTITIONS_TO_TXN_KEY,
    BROKERS_SINCE,
    FETCH,
    PRODUCE,
    REQUEST,
    Metering,
    quotas_of,
)
from kwire.handlers import FETCH_KEY, PRODUCE_KEY
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from kwire.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    ReplicaState,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
)
from kwire.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kwire.security.authorizer import Authorizer
from kwire.security.principal import ANONYMOUS
from tests.support.clock import FakeClock
from tests.support.in_process import RawClient, RunningServer, running_server
from tests.support.records import batch
from tests.support.requests import fetch_request, produce_request
from tests.support.share_member import ShareMember, acquired, begin_group, only_row

USER = (("user", "ANONYMOUS"),)
PAUSE_MS = 300
PRODUCE_VERSIONS = (3, 8, 9, 12)


@asynccontextmanager
async def _running(tmp_path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, clock=Clock(steady_ms=lambda: 0)) as server:
        await server.topic("t", 2)
        await server.hang_up()
        yield server


async def alter(server, entity=USER, **values) -> None:
    """Set quotas of an entity; None removes one."""
    client = await server.connect()
    await _alter_by(client, entity, **values)
    await client.aclose()


async def _alter_by(client: RawClient, entity=USER, **values) -> None:
    entry = AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ],
    )
    request = AlterClientQuotasRequest(entries=[entry])
    answer = await client.request(request, 1, AlterClientQuotasResponse)
    assert answer.entries[0].error_code == 0


def _produce(acks: int = 1, partitions=(0,), size: int = 10) -> ProduceRequest:
    return produce_request("t", dict.fromkeys(partitions, batch(bytes(size))), acks=acks)


def _fetch(max_bytes: int = 1 << 20, **fields: object) -> FetchRequest:
    return fetch_request("t", max_bytes=max_bytes, **fields)


async def _throttled(server, pause_ms: int = PAUSE_MS) -> RawClient:
    """A client that has to wait as long as this, from now on."""
    client = await server.connect()
    first = await client.request(_produce(), 9, ProduceResponse)
    assert first.throttle_time_ms == 0
    meter = server.broker.quotas.clients.of("ANONYMOUS", "raw", 0).produce
    used = meter.counter.measure(0)[0] * 10
    meter.counter.record(meter.limit * (10 + pause_ms / 1000) - used - _frame_bytes(9), 0)
    return client


def _frame_bytes(version: int, request: ProduceRequest | None = None) -> int:
    from kwire.protocol.frame import encode_request

    return len(bytes(encode_request(request or _produce(), version, 1, "raw"))) - 4


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("partitions", [(0,), (0, 1)])
async def test_produce_is_answered_at_once_and_then_the_client_waits(tmp_path, version, partitions):
    """The wait is (rate - quota) / quota * window."""
    async with _running(tmp_path) as server:
        request = _produce(partitions=partitions)
        size = _frame_bytes(version, request)
        await alter(server, producer_byte_rate=size / 5 // 1)
        limit = size / 5 // 1
        client = await server.connect()
        waits = []
        for _ in range(51):
            sent_s = trio.current_time()
            answer = await client.request(request, version, ProduceResponse)
            assert trio.current_time() - sent_s < 5
            waits.append(answer.throttle_time_ms)
            if answer.throttle_time_ms:
                break
        wait_ms = (len(waits) * size / 10 - limit) / limit * 10_000
        assert waits[-1] == pytest.approx(wait_ms, abs=1)
        assert not any(waits[:-1])
        assert server.broker.quotas.pauses
        await client.send(request, version)
        with trio.move_on_after(0.02) as read:
            await client.receive_frame()
        assert read.cancelled_caught
        assert server.broker.counters.throttled == {"produce": 1}


async def test_requests_that_were_sent_ahead_wait_too(tmp_path):
    async with _running(tmp_path) as server:
        await alter(server, producer_byte_rate=1000.0)
        client = await _throttled(server)
        for _ in range(3):
            await client.send(_produce(), 9)
        await client.receive_frame()
        began_s = trio.current_time()
        await client.receive_frame()
        assert trio.current_time() - began_s >= PAUSE_MS / 1000 - 0.01
        assert len(server.broker.quotas.pauses) == 1


async def test_a_producer_without_acknowledgements_waits_as_well(tmp_path):
    async with _running(tmp_path) as server:
        await alter(server, producer_byte_rate=1000.0)
        client = await _throttled(server)
        began_s = trio.current_time()
        await client.send(_produce(acks=0), 9)
        await client.request(MetadataRequest(), 4, MetadataResponse)
        assert trio.current_time() - began_s >= PAUSE_MS / 1000 - 0.02


async def test_another_connection_does_not_get_around_a_quota(tmp_path):
    async with _running(tmp_path) as server:
        await alter(server, producer_byte_rate=1000.0)
        await _throttled(server)
        other = RawClient(await trio.open_tcp_stream(server.host, server.port), "another-id")
        answer = await other.request(_produce(), 9, ProduceResponse)
        assert answer.throttle_time_ms > 0


async def test_a_consumer_gets_no_more_at_once_than_ten_windows_and_then_waits(tmp_path):
    """Nothing is lost by the answer without records, in a session or not.

    An answer without records begins no session: Java's clients would begin another one each time.
    """
    async with _running(tmp_path) as server:
        client = await server.connect()
        for _ in range(30):
            await client.request(_produce(size=1000), 9, ProduceResponse)
        await alter(server, consumer_byte_rate=500.0)
        answer = await client.request(_fetch(), 11, FetchResponse)
        size = len(answer.responses[0].partitions[0].records)
        assert 0 < size <= 5000
        assert answer.throttle_time_ms == 0
        client = await server.connect()
        answer = await client.request(_fetch(session_epoch=0), 11, FetchResponse)
        assert answer.session_id == len(server.broker.fetch_sessions) == 0
        assert answer.responses == []
        assert answer.throttle_time_ms == pytest.approx(2 * size / 0.5 - 10_000, abs=1)
        assert len(server.broker.quotas.pauses) == 1
        await alter(server, consumer_byte_rate=None, producer_byte_rate=1e9)
        client = await server.connect()
        nothing = _fetch(session_epoch=0)
        nothing.topics[0].partitions[0].fetch_offset = 30
        session_id = (await client.request(nothing, 11, FetchResponse)).session_id
        assert session_id
        again = _fetch(session_id=session_id, session_epoch=1)
        await alter(server, consumer_byte_rate=500.0)
        client = await server.connect()
        answer = await client.request(again, 11, FetchResponse)
        assert answer.session_id == session_id
        assert answer.responses == []
        await alter(server, consumer_byte_rate=5000.0)
        client = await server.connect()
        again.session_epoch = 2
        again.topics = []
        answer = await client.request(again, 11, FetchResponse)
        assert len(answer.responses[0].partitions[0].records) > 0


async def test_a_batch_larger_than_the_quota_is_sent_to_who_has_used_nothing(tmp_path):
    async with _running(tmp_path) as server:
        client = await server.connect()
        for _ in range(2):
            await client.request(_produce(size=1000), 9, ProduceResponse)
        await alter(server, consumer_byte_rate=1.0)
        client = await server.connect()
        answer = await client.request(_fetch(), 11, FetchResponse)
        assert len(answer.responses[0].partitions[0].records) > 1000
        assert answer.throttle_time_ms > 0


@pytest.mark.parametrize("version", [12, 13, 18])
async def test_a_quota_holds_for_consumers_of_new_versions(tmp_path, version):
    """Those are answered by the fast path, but not while their client has a quota."""
    async with _running(tmp_path) as server:
        client = await server.connect()
        for _ in range(30):
            await client.request(_produce(size=1000), 9, ProduceResponse)
        await alter(server, consumer_byte_rate=500.0)
        asked = _fetch(topic_id=server.broker.image.topics_by_name["t"].topic_id)
        answer = await client.request(asked, version, FetchResponse)
        assert 0 < len(answer.responses[0].partitions[0].records) <= 5000
        answer = await client.request(asked, version, FetchResponse)
        assert answer.throttle_time_ms > 0
        assert server.broker.counters.throttled == {"fetch": 1}


async def test_a_share_consumer_acquires_nothing_until_its_wait_is_over(tmp_path):
    """What it has acquired counts, though its locks run already; acknowledgements go on."""
    async with _running(tmp_path) as server:
        client = await server.connect()
        for _ in range(30):
            await client.request(_produce(size=1000), 9, ProduceResponse)
        topic_id = await begin_group(server, "workers", "t")
        await alter(server, consumer_byte_rate=500.0)
        member = ShareMember(await server.connect(), "workers", "first", topic_id)
        first = await member.fetch(partitions=(0,))
        ((begin, end, _),) = acquired(first)
        assert 1000 < len(only_row(first).records) <= 5000
        assert first.throttle_time_ms == 0
        second = await member.fetch()
        ((_, last, _),) = acquired(second)
        assert second.throttle_time_ms > 0
        assert len(server.broker.quotas.pauses) == 1
        others = ShareMember(await server.connect(), "workers", "second", topic_id)
        third = await others.fetch(partitions=(0,))
        assert not third.responses
        assert 0 < third.throttle_time_ms <= second.throttle_time_ms
        assert server.broker.counters.throttled == {"fetch": 2}
        await alter(server, consumer_byte_rate=None)
        assert acquired(await others.fetch())[0] == (last + 1, 29, 1)
        assert (begin, end < last) == (0, True)


async def test_replication_and_its_bytes_are_exempt(tmp_path):
    async with _running(tmp_path) as server:
        client = await server.connect()
        await client.request(_produce(size=1000), 9, ProduceResponse)
        await alter(server, consumer_byte_rate=1.0, request_percentage=0.000001)
        client = await server.connect()
        asked = _fetch(replica_state=ReplicaState(replica_id=5, replica_epoch=1))
        topic_id = server.broker.image.topics_by_name["t"].topic_id
        asked.topics[0].topic_id = topic_id
        answer = await client.request(asked, 16, FetchResponse)
        assert answer.throttle_time_ms == 0
        assert not server.broker.counters.throttled


@pytest.mark.parametrize("version", [2, 3, 12])
async def test_the_time_of_requests_counts(tmp_path, version):
    """Versions without the field wait as well; never longer than a window."""
    async with _running(tmp_path) as server:
        await alter(server, request_percentage=0.000001)
        client = await server.connect()
        began_s = trio.current_time()
        answer = await client.request(MetadataRequest(), version, MetadataResponse)
        assert answer.throttle_time_ms == (1000 if version >= 3 else 0)
        assert trio.current_time() - began_s < 0.9
        assert server.broker.counters.throttled == {"request": 1}


async def test_who_has_no_quota_does_not_wait(tmp_path):
    async with _running(tmp_path) as server:
        await alter(server, (("client-id", "other"),), producer_byte_rate=1.0)
        client = await server.connect()
        for _ in range(3):
            answer = await client.request(_produce(), 9, ProduceResponse)
            assert answer.throttle_time_ms == 0
        await alter(server, (("client-id", "other"),), producer_byte_rate=None)
        assert server.broker.quotas is None


async def test_a_stop_waits_for_nobody_who_waits(tmp_path):
    with trio.fail_after(5):
        async with _running(tmp_path) as server:
            await alter(server, producer_byte_rate=1000.0)
            client = await _throttled(server, 3_600_000)
            answer = await client.request(_produce(), 9, ProduceResponse)
            assert answer.throttle_time_ms == pytest.approx(3_600_000, abs=1)


async def test_the_last_quota_that_is_removed_ends_the_waits(tmp_path):
    with trio.fail_after(5):
        async with _running(tmp_path) as server:
            await alter(server, producer_byte_rate=1000.0)
            client = await _throttled(server, 3_600_000)
            await client.request(_produce(), 9, ProduceResponse)
            await client.send(_produce(), 9)
            await alter(server, producer_byte_rate=None)
            assert await client.receive_frame() is not None


async def test_a_client_removes_its_own_quota_and_goes_on(tmp_path):
    """The request that ends all quotas has begun with one."""
    async with _running(tmp_path) as server:
        await alter(server, request_percentage=100.0)
        client = await server.connect()
        await _alter_by(client, request_percentage=None)
        assert server.broker.quotas is None
        answer = await client.request(_produce(), 9, ProduceResponse)
        assert answer.throttle_time_ms == 0


async def test_a_client_that_leaves_while_it_waits_is_forgotten(tmp_path):
    with trio.fail_after(5):
        async with _running(tmp_path) as server:
            await alter(server, producer_byte_rate=1000.0)
            client = await _throttled(server, 3_600_000)
            await client.request(_produce(), 9, ProduceResponse)
            pauses = server.broker.quotas.pauses
            assert len(pauses) == 1
            await client.aclose()
            while pauses:
                await trio.lowlevel.checkpoint()


async def test_a_client_that_leaves_behind_requests_sent_ahead_is_forgotten_soon(tmp_path):
    """Its bytes aren't read, and so not the end behind them: the sweep of connections asks."""
    with trio.fail_after(5):
        async with _running(tmp_path) as server:
            await alter(server, producer_byte_rate=1000.0)
            client = await _throttled(server, 3_600_000)
            await client.request(_produce(), 9, ProduceResponse)
            await client.send(_produce(), 9)
            [connection] = server.server.poller.connections
            await trio.testing.wait_all_tasks_blocked()  # the request has arrived
            connection.release_memory()
            assert server.broker.quotas.pauses
            await client.aclose()
            while server.broker.quotas.pauses:
                connection.release_memory()
                await trio.lowlevel.checkpoint()
            assert not server.server.poller.connections


@pytest.mark.parametrize("is_refused", [False, True])
async def test_who_only_pretends_to_be_a_broker_is_not_exempt(tmp_path, is_refused):
    """Otherwise requests that are refused would get around the quota of time."""
    async with _running(tmp_path) as server:
        await alter(server, request_percentage=0.000001)
        client = await server.connect()
        if is_refused:
            server.broker.authorizer = Authorizer(frozenset(), ())
        request = WriteTxnMarkersRequest()
        await client.request(request, 1, WriteTxnMarkersResponse)
        assert server.broker.counters.throttled == ({"request": 1} if is_refused else {})


@pytest.mark.parametrize("step_ms", [-3_600_000, 604_800_000], ids=["back", "ahead"])
async def test_a_date_that_is_set_changes_no_wait(tmp_path, step_ms):
    """What a client has used counts no more after the windows of the quota, by the steady clock."""
    clock = FakeClock()
    async with running_server(tmp_path, clock=clock) as server:
        await alter(server, producer_byte_rate=1.0)
        quotas = server.broker.quotas
        meter = quotas.of(ANONYMOUS, "raw").produce
        waits_ms = [meter.use(1_000_000, clock.steady_ms())]
        clock.set_date(step_ms)
        waits_ms.append(quotas.of(ANONYMOUS, "raw").produce.use(0, clock.steady_ms()))
        clock.pass_time(12_000)
        waits_ms.append(quotas.of(ANONYMOUS, "raw").produce.use(0, clock.steady_ms()))
    first, later, last = waits_ms
    assert first == later > 9000
    assert last == 0


@pytest.mark.parametrize(("produce_ms", "kind"), [(6, REQUEST), (7, REQUEST), (8, PRODUCE)])
def test_of_two_quotas_the_one_with_the_longer_wait_is_named(produce_ms, kind):
    """As in Kafka, that of requests if both waits are the same."""
    noted = []
    quotas = SimpleNamespace(steady_ms=lambda: 0, note=lambda *wait: noted.append(wait))
    own = SimpleNamespace(
        request=SimpleNamespace(use=lambda percent, now_ms: 7),
        produce=SimpleNamespace(use=lambda size_bytes, now_ms: produce_ms),
    )
    header = SimpleNamespace(api_key=PRODUCE_KEY)
    response = ProduceResponse()
    Metering(quotas, own, header, 100, SimpleNamespace()).answer(response)
    assert noted == [(kind, max(7, produce_ms))]
    assert response.throttle_time_ms == max(7, produce_ms)


@pytest.mark.parametrize(("fetch_ms", "kind"), [(6, REQUEST), (7, REQUEST), (8, FETCH)])
def test_a_fetch_with_two_quotas_names_the_one_with_the_longer_wait(fetch_ms, kind):
    """As in Kafka, that of requests if both waits are the same."""
    noted = []
    quotas = SimpleNamespace(steady_ms=lambda: 0, note=lambda *wait: noted.append(wait))
    request = SimpleNamespace(use=lambda percent, now_ms: 7)
    own = SimpleNamespace(request=request, produce=None)
    response = FetchResponse(throttle_time_ms=fetch_ms)
    header = SimpleNamespace(api_key=FETCH_KEY)
    Metering(quotas, own, header, 100, SimpleNamespace()).answer(response)
    assert noted == [(kind, max(7, fetch_ms))]
    assert response.throttle_time_ms == max(7, fetch_ms)


def test_time_in_threads_counts():
    """Checks of large batches are work for the client as well."""
    used = []
    meter = SimpleNamespace(use=lambda percent, now_ms: used.append(percent) or 0)
    quotas, work = SimpleNamespace(steady_ms=lambda: 0), SimpleNamespace()
    own = SimpleNamespace(request=meter, produce=None)
    metering = Metering(quotas, own, SimpleNamespace(api_key=PRODUCE_KEY), 100, work)
    work.in_threads_s = 50.0
    metering.answer(ProduceResponse())
    assert used[0] > 50.0 * 100


@pytest.mark.parametrize("version", [BROKERS_SINCE - 1, BROKERS_SINCE])
async def test_brokers_that_ask_for_many_producers_are_exempt(tmp_path, version):
    """Version 4 of AddPartitionsToTxn is for them, the others for producers (KIP-890)."""
    async with _running(tmp_path) as server:
        await alter(server, request_percentage=1.0)
        client = await server.connect()
        await client.request(MetadataRequest(), 9, MetadataResponse)
        [info] = [one.info for one in server.server.poller.connections]
        header = SimpleNamespace(
            api_key=ADD_PARTITIONS_TO_TXN_KEY, api_version=version, client_id="raw"
        )
        own = quotas_of(server.broker, info, header)
        assert (own is None) == (version == BROKERS_SINCE)


def test_the_quota_of_producers_holds_for_produce_alone():
    """What a client fetches is no use of it."""
    used = []
    quotas = SimpleNamespace(steady_ms=lambda: 0, note=lambda *_: None)
    own = SimpleNamespace(
        request=None,
        produce=SimpleNamespace(use=lambda size_bytes, now_ms: used.append(size_bytes) or 0),
    )
    for key, response in ((FETCH_KEY, FetchResponse()), (PRODUCE_KEY, ProduceResponse())):
        header = SimpleNamespace(api_key=key)
        Metering(quotas, own, header, 100 + key, SimpleNamespace()).answer(response)
    assert used == [100 + PRODUCE_KEY]


@pytest.mark.parametrize("is_exempt", [False, True])
def test_time_after_the_answer_counts_unless_the_request_is_exempt(is_exempt):
    """It is recorded for the client's next request."""
    recorded = []
    meter = SimpleNamespace(
        use=lambda percent, now_ms: 0,
        counter=SimpleNamespace(record=lambda percent, now_ms: recorded.append(percent)),
    )
    quotas = SimpleNamespace(steady_ms=lambda: 0)
    own = SimpleNamespace(request=meter, produce=None)
    work = SimpleNamespace()
    metering = Metering(quotas, own, SimpleNamespace(api_key=PRODUCE_KEY), 100, work)
    metering.rest()
    assert not recorded
    work.is_exempt = is_exempt
    metering.answer(ProduceResponse())
    metering.rest()
    assert len(recorded) == (not is_exempt)

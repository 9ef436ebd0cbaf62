"""The fast paths of simulated brokers: they run, repeat themselves, and faults hit them too."""

from collections import Counter
from pathlib import Path

import pytest
import trio

from kwire.broker.replica.replica_fetch_connection import ReplicaFetchConnection
from kwire.client.topics import create_topics
from kwire.errors import KafkaError
from tests.simulation import failures
from tests.simulation.network import USUAL_DELAY_S, SimulatedStream
from tests.simulation.run import first_of, simulate
from tests.simulation.scenarios import kills
from tests.simulation.serving import FastServer
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import IdempotentProducer
from tests.simulation.world import World

# Private attributes: which way an answer has taken can't be seen from outside.

TOPIC = "t"
LARGE_BYTES = 150_000


async def _made(world: World) -> None:
    """A topic on three brokers."""
    made = await create_topics(world.client("setup"), [TOPIC], partitions=6)
    assert not isinstance(made[TOPIC], KafkaError), made
    await world.all_ready()


def test_fast_and_plain_brokers_follow_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of three have a poller; these follow all others by fetch connections."""
    linked: Counter[tuple[int, int]] = Counter()
    append = ReplicaFetchConnection._append

    def note_append(fetch_connection: ReplicaFetchConnection) -> None:
        for partition, _ in fetch_connection._fetched:
            linked[fetch_connection._lender.sender().node_id, partition.leader] += 1
        append(fetch_connection)

    monkeypatch.setattr(ReplicaFetchConnection, "_append", note_append)

    async def scenario(world: World) -> None:
        fast = [node_id for node_id, node in world.nodes.items() if type(node.server) is FastServer]
        assert fast == [1, 2]
        await _made(world)
        producer = IdempotentProducer(world, "p", TOPIC)
        for _ in range(40):
            await producer.step()
        await world.until(world.checks.all_equal, 5, "all replicas are equal")

    simulate(1, tmp_path, scenario, replicated=True)
    assert linked.keys() == {(1, 2), (1, 3), (2, 1), (2, 3)}


def test_a_seed_repeats_each_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it was sent, by whom to whom, and how long it is, through all faults."""
    send = SimulatedStream.send_now
    messages: list[tuple[float, object, object, int]] = []

    def note(stream: SimulatedStream, data: bytes) -> None:
        messages.append((trio.current_time(), stream.place, stream.other, len(data)))
        send(stream, data)

    monkeypatch.setattr(SimulatedStream, "send_now", note)

    async def scenario(world: World) -> None:
        await _made(world)
        producer = IdempotentProducer(world, "p", TOPIC)
        producer.pause_s = 0.1
        world.nursery.start_soon(producer.run)
        with world.faults.numbered():
            await kills(world)
        world.heal()
        await world.all_ready(60)
        producer.stops = True
        await producer.has_ended.wait()
        await producer.check()

    runs = []
    for name in ("first", "second"):
        root = tmp_path / name
        root.mkdir()
        notes = simulate(5, root, scenario, replicated=True)
        runs.append((notes, list(messages)))
        messages.clear()
    assert len(runs[0][1]) > 1000
    assert runs[0] == runs[1]


class LargeProducer(IdempotentProducer):
    """Its batches arrive in pieces, and so do the answers to the followers' fetches."""

    def value(self, number: int) -> str:
        """A large record."""
        return super().value(number).ljust(LARGE_BYTES, ".")


async def _large_answers(world: World) -> None:
    await _made(world)
    producers = [LargeProducer(world, name, TOPIC) for name in ("one", "two", "three")]
    for producer in producers:
        producer.pause_s = 0.05
        world.nursery.start_soon(producer.run)
    with world.faults.numbered():
        for _ in world.rounds(4):
            world.network.slow_down(0.2)
            await pass_s(world.random.uniform(0.5, 1.5))
            node = world.random.choice(list(world.nodes.values()))
            world.random.choice((node.stop, node.kill))()
            world.network.reset(*world.random.sample(list(world.nodes), 2))
            await pass_s(1)
            world.network.delay_s = USUAL_DELAY_S
            await failures.back(world, node)
    world.heal()
    for producer in producers:
        producer.stops = True
        await producer.has_ended.wait()
        assert producer.done
    await world.until(world.checks.all_equal, 30, "all replicas are equal")
    world.checks.check_equal()
    for producer in producers:
        await producer.check()


def test_large_answers_break_off(seed: int, tmp_path: Path) -> None:
    """Brokers stop, die and lose connections while a link has a part of an answer."""
    simulate(seed, tmp_path, _large_answers, replicated=True)


def test_a_link_that_needs_an_open_socket_for_its_end_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection may be closed before, when its broker ends."""
    await_bytes = ReplicaFetchConnection._await_bytes

    def strictly(fetch_connection: ReplicaFetchConnection, count: int) -> None:
        try:
            await_bytes(fetch_connection, count)
        except OSError as error:
            if fetch_connection._sock is not None:
                # or it would close somebody else's socket when it is collected
                fetch_connection._sock.detach()
            raise AssertionError("a link can't end") from error

    monkeypatch.setattr(ReplicaFetchConnection, "_await_bytes", strictly)
    told = []
    for seed in range(1, 60):
        root = tmp_path / str(seed)
        root.mkdir()
        try:
            simulate(seed, root, _large_answers, replicated=True)
        except BaseExceptionGroup as group:
            told.append(str(first_of(group)))
            break
    assert told == ["a link can't end"]

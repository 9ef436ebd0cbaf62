"""A cluster in virtual time: what single faults cost, and what a seed promises."""

from pathlib import Path

import pytest
import trio

from kwire.broker.membership import LEAVE_S
from kwire.client.topics import create_topics, delete_topics
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import FeatureLevelChanged
from kwire.metadata.etcd.gateway import CALL_S, Answered
from kwire.metadata.etcd.transactions import Json
from kwire.metadata.features import CHANGES_VERSION, SUPPORTED, FeatureRange
from tests.simulation.run import simulate
from tests.simulation.scenarios import everything, under
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import IdempotentProducer, read_all
from tests.simulation.world import KEEP_MS, Node, World


def test_a_seed_repeats_its_run(tmp_path: Path) -> None:
    """To the millisecond, or no failure could be looked into."""

    async def scenario(world: World) -> None:
        await under(world, everything)

    runs = []
    for name in ("first", "second"):
        root = tmp_path / name
        root.mkdir()
        runs.append(simulate(4, root, scenario))
    assert runs[0] == runs[1]


def test_a_dead_controller_is_replaced_at_once(seed: int, tmp_path: Path) -> None:
    """Its address refuses connections: nobody waits for the end of its lease (6 s)."""

    async def scenario(world: World) -> None:
        dead = world.nodes[world.checks.image.controller_id]
        dead.kill()
        began_s = trio.current_time()
        await world.until(
            lambda: (
                world.checks.image.controller_id != dead.node_id
                and world.checks.image.brokers[dead.node_id].is_fenced
            ),
            1.0,
            "another controller has fenced the dead one",
        )
        world.note(f"after {trio.current_time() - began_s:.3f} s")
        other = next(node for node in world.nodes.values() if node.broker is not None)
        if other.node_id != world.checks.image.controller_id:
            other.kill()
            await world.until(
                lambda: world.checks.image.brokers[other.node_id].is_fenced, 1.0, "it is fenced"
            )

    simulate(seed, tmp_path, scenario)


def test_a_frozen_broker_keeps_its_session_time(seed: int, tmp_path: Path) -> None:
    """Its address doesn't refuse, so it is fenced when its lease ends, and comes back by itself."""

    async def scenario(world: World) -> None:
        frozen = world.nodes[world.checks.image.controller_id]
        frozen.freeze()
        await pass_s(6 - KEEP_MS / 1000 - 0.2)
        assert not world.checks.image.brokers[frozen.node_id].is_fenced
        await world.until(
            lambda: world.checks.image.brokers[frozen.node_id].is_fenced, 8.0, "it is fenced"
        )
        world.heal()
        await world.all_ready(10)

    simulate(seed, tmp_path, scenario)


def test_nothing_passes_from_a_deleted_topic_to_its_namesake(seed: int, tmp_path: Path) -> None:
    """S25: a broker is away while a topic is deleted and created again."""

    async def scenario(world: World) -> None:
        client = world.client("setup")
        await create_topics(client, ["t"], partitions=6)
        first = IdempotentProducer(world, "first", "t")
        for _ in range(30):
            await first.step()
        away = world.random.choice(list(world.nodes.values()))
        away.kill() if world.random.random() < 0.7 else away.stop()
        await world.until(lambda: not world.checks.image.is_active(away.node_id), 20, "it is away")
        for _ in range(world.random.randint(1, 2)):
            assert (await delete_topics(client, ["t"]))["t"] is None
            made = (await create_topics(client, ["t"], partitions=6))["t"]
            assert not isinstance(made, KafkaError), made
        away.start()
        await world.all_ready(30)
        second = IdempotentProducer(world, "second", "t")
        for _ in range(20):
            await second.step()
        found = await read_all(world.client("reader"), "t")
        strange = [v for values in found.values() for v in values if not v.startswith("second:")]
        assert not strange, f"records of the deleted topic: {strange[:5]}"
        await second.check()

    simulate(seed, tmp_path, scenario)


def test_an_outage_refuses_changes_and_nothing_else(tmp_path: Path) -> None:
    """S5: a producer goes on at replication factor 1; a new topic is REQUEST_TIMED_OUT."""

    async def scenario(world: World) -> None:
        client = world.client("setup")
        await create_topics(client, ["t"], partitions=6)
        producer = IdempotentProducer(world, "p", "t")
        await producer.step()
        world.etcd.faults.is_down = True
        began_s = trio.current_time()
        patient = world.client("patient", request_timeout_s=40.0)
        refused = (await create_topics(patient, ["u"], partitions=1))["u"]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.REQUEST_TIMED_OUT
        assert trio.current_time() - began_s < 31
        before = producer.done
        for _ in range(5):
            await producer.step()
        assert producer.done > before
        world.heal()
        await world.all_ready(20)
        await producer.check()

    simulate(1, tmp_path, scenario)


AWAY_S = 10.0
"""Longer than a call of a broker that serves, and than a session; shorter than a start's call."""


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_a_start_waits_for_the_store_at_any_of_its_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_clean: bool
) -> None:
    """The broker loses the store before one call after the other; its start goes on by itself."""

    async def start_without(world: World, node: Node, call: int) -> bool:
        """Start a broker that loses the store before this call; whether its start had so many."""
        node.start()
        gateway, calls, cut_s = node.gateway, 0, -1.0
        forward = gateway.call

        async def counted(path: str, body: Json, within_s: float = CALL_S) -> Answered:
            nonlocal calls, cut_s
            calls += path != "lease/keepalive"
            if calls == call and cut_s < 0 and not node.is_ready:
                cut_s, gateway.is_cut = trio.current_time(), True
            return await forward(path, body, within_s)

        monkeypatch.setattr(gateway, "call", counted)
        await world.until(lambda: cut_s >= 0 or node.is_ready, 20, "the call, or the end")
        if cut_s >= 0:
            await pass_s(AWAY_S)
            assert not node.is_ready
            gateway.is_cut = False
        await world.until(lambda: node.is_ready, 20, f"it is ready, cut at call {call}")
        return cut_s >= 0

    async def scenario(world: World) -> None:
        node, call, had_call = world.nodes[2], 0, True
        while had_call:
            call += 1
            node.stop() if is_clean else node.kill()
            await world.until(lambda: node.is_down, 20, "it is down")
            had_call = await start_without(world, node, call)
            await world.all_ready(20)
        assert call > 6
        assert not [note for note in world.notes if "can't start" in note]

    simulate(1, tmp_path, scenario)


def test_a_stop_without_the_store_ends_in_time_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The others learn of it when its session ends; its next start needs nobody's help."""

    async def scenario(world: World) -> None:
        node = world.nodes[2]
        node.leave_the_store()
        node.stop()
        await world.until(lambda: node.is_down, LEAVE_S + 1, "it has stopped")
        assert caplog.text.count("this broker leaves without") == 1
        node.start()
        await world.all_ready(20)

    simulate(1, tmp_path, scenario)


def test_a_broker_that_lacks_a_level_of_changes_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster has a level that this version doesn't know: it says so in one line."""

    async def scenario(world: World) -> None:
        node = world.nodes[2]
        node.kill()
        level = [FeatureLevelChanged(CHANGES_VERSION, 3)]
        await world.nodes[1].broker.commit(lambda _: level)
        node.start()
        await pass_s(5)
        [line, *_] = [note for note in world.notes if "can't start" in note]
        assert "broker 2 supports kwire.changes from 1 to 2, but the cluster has level 3" in line
        assert world.checks.image.brokers[2].is_fenced
        newer = {**SUPPORTED, CHANGES_VERSION: FeatureRange(1, 3)}
        monkeypatch.setattr("kwire.metadata.features.SUPPORTED", newer)
        await world.all_ready(20)

    simulate(1, tmp_path, scenario)

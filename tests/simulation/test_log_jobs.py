"""The logs of new topics are made slowly, one by one, while brokers die, stop, and get others.

So replicas lead, follow, move and are deleted whose logs aren't there yet. See ``LogJob``.
"""

from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from kwire.broker.replica import replica_manager
from kwire.broker.replica.replica_manager import LogJob, ReplicaManager
from kwire.client.topics import create_topics, delete_topics
from tests.simulation.moves import ask_to_move
from tests.simulation.readers import Careless
from tests.simulation.run import simulate
from tests.simulation.scenarios import finish, revoke_leases
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import FAILURES, PARTITIONS, IdempotentProducer, Workload
from tests.simulation.world import Node, World

# Private attributes: each slice of a job is made slow, which no disk could do.

NODES = (1, 2, 3, 4)
ROUNDS = 3
AGAIN = "again"
FLUSHED = {"log.flush.interval.messages": "1"}


async def _create(world: World, topic: str) -> None:
    with suppress(*FAILURES):
        await create_topics(
            world.client(f"setup {topic}"), [topic], partitions=PARTITIONS, replication_factor=3
        )


async def _create_again(world: World) -> None:
    """Delete a topic, and create one of the same name, without a pause."""
    with suppress(*FAILURES):
        await delete_topics(world.client("deleter"), [AGAIN])
    await _create(world, AGAIN)


async def _move(world: World, topic: str) -> None:
    """Ask for other replicas of all partitions of a topic that may not be there yet."""
    wanted: dict[int, list[int] | None] = {
        index: world.random.sample(NODES, 3) for index in range(PARTITIONS)
    }
    with suppress(*FAILURES):
        await ask_to_move(world.client("admin"), wanted, topic)


def _break(world: World, node: Node) -> None:
    """Something happens to one broker."""
    match world.random.randrange(5):
        case 0:
            node.kill()
        case 1:
            node.stop()
        case 2:
            node.lose_power()
        case 3:
            revoke_leases(world)
        case _:
            node.leave_the_store()
            for other in NODES:
                if other != node.node_id:
                    world.network.cut(node.node_id, other)


def _slow_down(world: World, patch: pytest.MonkeyPatch) -> None:
    """Have each slice of a job be one log, and take up to half a second."""
    go_on = ReplicaManager._do_slice

    async def slow(self: ReplicaManager, job: LogJob) -> None:
        await pass_s(world.random.random() * 0.5)
        await go_on(self, job)
        await pass_s(world.random.random() * 0.1)

    patch.setattr(replica_manager, "LOGS_PER_TURN", 1)
    patch.setattr(ReplicaManager, "_do_slice", slow)


def _are_right(world: World) -> bool:
    """Whether each broker has the directories of its replicas, and no others in use."""
    for node in world.nodes.values():
        topics = world.checks.image.topics_by_name.items()
        given = {
            f"{name}-{index}"
            for name, topic in topics
            for index, row in enumerate(topic.partitions)
            if node.node_id in row.replicas
        }
        kept = {one.name for one in node.data.iterdir() if one.is_dir()}
        if {name for name in kept if not name.endswith(("-delete", "-stray"))} != given:
            return False
    return True


def test_nothing_is_lost_while_logs_are_being_made(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No acknowledged record, and no replica: the cluster is whole by itself afterwards."""

    async def scenario(world: World) -> None:
        _slow_down(world, monkeypatch)
        workloads: list[Workload] = []
        with world.faults.numbered():
            for number in world.rounds(ROUNDS):
                topic = f"t{number}"
                clients = [
                    IdempotentProducer(world, f"{topic} all", topic),
                    Careless(world, f"{topic} one", topic),
                    Careless(world, f"{topic} again", AGAIN),
                ]
                for workload in clients:
                    workload.pause_s = 0.2
                    world.nursery.start_soon(workload.run)
                workloads += clients[:2]
                world.nursery.start_soon(_create, world, topic)
                world.nursery.start_soon(_create_again, world)
                await pass_s(world.random.random() * 2)
                if world.random.random() < 0.7:
                    world.nursery.start_soon(_move, world, topic)
                    await pass_s(world.random.random())
                for node in world.random.sample(list(world.nodes.values()), 2):
                    _break(world, node)
                    await pass_s(world.random.random() * world.random.choice((0.1, 2, 9)))
                clients[2].stops = True
                world.heal()
                with trio.fail_after(60):
                    await clients[2].has_ended.wait()
                for name in (topic, AGAIN):
                    await _exists(world, name)
                await world.all_ready(60)
        await finish(world, workloads)
        await world.until(partial(_has_moved, world), 120, "all have moved")
        places = partial(_are_right, world)
        await world.until(places, 60, "each broker has the directories of its replicas alone")
        await pass_s(5)
        assert places()

    simulate(seed, tmp_path, scenario, replicated=True, settings=FLUSHED, nodes=NODES)


def _has_moved(world: World) -> bool:
    topics = world.checks.image.topics_by_name.values()
    return not any(row.adding or row.removing for topic in topics for row in topic.partitions)


async def _exists(world: World, topic: str) -> None:
    """Create a topic whose creation has failed."""
    while topic not in world.checks.image.topics_by_name:
        await _create(world, topic)
        await pass_s(0.1)

"""Scenarios in which one more kind of client works than in ``failures``."""

import trio

from kwire.broker.coordinator_lookup import partition_for
from tests.simulation.copiers import LateEnds
from tests.simulation.failures import (
    BUSY_S,
    TOPIC,
    back,
    coordinators_move,
    leader_dies_with_tail,
    leader_of,
    others_of,
)
from tests.simulation.groups import GROUP, mates
from tests.simulation.readers import ReplicaReader
from tests.simulation.scenarios import TOPICS, Fault
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import Workload
from tests.simulation.world import World

MATES = ("mate 0", "mate 1", "mate 2")


async def with_workloads(world: World, fault: Fault, *workloads: Workload) -> None:
    """Let more clients work during a fault, and check them once all brokers are back.

    A client that the faults have hindered all the time works afterwards.
    """
    for workload in workloads:
        workload.pause_s = BUSY_S
        world.nursery.start_soon(workload.run)
    await fault(world)
    world.heal()
    await world.all_ready(60)
    with trio.move_on_after(60):
        while not all(workload.done for workload in workloads):
            await pass_s(BUSY_S)
    for workload in workloads:
        assert workload.done, f"{workload.name} has done nothing"
        workload.stops = True
    with trio.fail_after(60):
        for workload in workloads:
            await workload.has_ended.wait()
    for workload in workloads:
        await workload.check()


async def truncating_followers_are_read(world: World) -> None:
    """S16: consumers read from followers that truncate (KIP-392, KAFKA-14704)."""
    reader = ReplicaReader(world, "another reader", TOPIC)
    await with_workloads(world, leader_dies_with_tail, reader)


async def late_ends(world: World) -> None:
    """S21: an EndTxn arrives when the next transaction has begun, and coordinators move."""
    ender = LateEnds(world, "late", TOPICS[1])
    await with_workloads(world, coordinators_move, ender)
    assert ender.late, "no end was late"


async def _coordinator_moves(world: World, group: str) -> None:
    """Six times the coordinator of a group is cut off, dies with what only it has, and is back."""
    for _ in world.rounds(6):
        await pass_s(world.random.random() * 2)
        node = leader_of(world, "__consumer_offsets", partition_for(group, 3))
        for other in others_of(world, node):
            world.network.cut(node.node_id, other.node_id)
        await pass_s(world.random.random() * 2)
        node.kill()
        world.network.heal()
        await pass_s(1 + world.random.random())
        await back(world, node)


async def members_come_and_go(world: World) -> None:
    """S22: members join, leave and die while their coordinator moves."""

    async def their_coordinator_moves(world: World) -> None:
        await _coordinator_moves(world, GROUP)

    await with_workloads(world, their_coordinator_moves, *mates(world, TOPIC, MATES))


async def commits_are_read_at_once(world: World) -> None:
    """S23: offsets are read while their commit isn't replicated, and their coordinator moves."""
    await _coordinator_moves(world, "group")


SCENARIOS = [
    truncating_followers_are_read,
    late_ends,
    members_come_and_go,
    commits_are_read_at_once,
]

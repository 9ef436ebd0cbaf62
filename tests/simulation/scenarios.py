"""The scenarios: faults that begin and end while clients work.

Names and numbers are those of the cluster's design. ``test_scenarios.py`` runs them at replication
factor 1, ``test_replicated.py`` at 3.
"""

from collections.abc import Awaitable, Callable, Sequence
from random import Random

import trio

from kwire.client.topics import create_topics
from tests.simulation.copiers import Copier
from tests.simulation.network import USUAL_DELAY_S
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import (
    Admin,
    IdempotentProducer,
    IdTaker,
    OffsetCommitter,
    Workload,
)
from tests.simulation.world import IN_SYNC_S, KEEP_MS, STORE_DELAY_S, Node, World

FAULTS_S = 12.0
TOPICS = ("plain", "moved")

Fault = Callable[[World], Awaitable[None]]


async def under(world: World, fault: Fault, *, transactions: bool = True) -> None:
    """Let clients work while a fault comes and goes, then heal everything, and check."""
    client = world.client("setup")
    for name, outcome in (await create_topics(client, TOPICS, partitions=6)).items():
        assert not isinstance(outcome, Exception), f"{name}: {outcome}"
    workloads: list[Workload] = [
        IdempotentProducer(world, "producer", "plain"),
        OffsetCommitter(world, "group", "plain"),
        IdTaker(world, "ids"),
        Admin(world, "admin"),
    ]
    if transactions:
        workloads += [
            Copier(world, "copier", "moved", bumps=False),
            Copier(world, "bumper", "moved", bumps=True),
        ]
    for workload in workloads:
        world.nursery.start_soon(workload.run)
    await pass_s(1)
    with world.faults.numbered():
        await fault(world)
    await finish(world, workloads)


async def finish(world: World, workloads: Sequence[Workload]) -> None:
    """Heal, let the clients work on, stop them, and check what they know."""
    world.heal()
    await world.all_ready(IN_SYNC_S if world.replicated else 60)
    before = {workload.name: workload.done for workload in workloads}
    await world.until(
        lambda: all(workload.done > before[workload.name] for workload in workloads),
        60,
        "every client works again",
    )
    for workload in workloads:
        workload.stops = True
    with trio.fail_after(60):
        for workload in workloads:
            await workload.has_ended.wait()
    await world.all_ready(10)
    if world.replicated:
        await world.until(world.checks.all_equal, IN_SYNC_S, "all replicas are equal")
        world.checks.check_equal()
    world.checks.coordinators()
    for workload in workloads:
        world.note(f"{workload.name}: {workload.done} done")
        await workload.check()


def stop_the_store(world: World) -> None:
    """Let the store answer nobody."""
    if world.happens("the store is down"):
        world.etcd.faults.is_down = True


def slow_the_store_down(world: World, delay_s: float) -> None:
    """Let each message of the store take up to this time."""
    if world.happens(f"messages of the store take up to {delay_s:g} s"):
        world.etcd.faults.delay_s = delay_s


def lose_answers(world: World, answers: float, calls: float) -> None:
    """Lose a part of the store's answers, and of the calls."""
    if world.happens(f"{answers:.0%} of the store's answers are lost, and {calls:.0%} of calls"):
        world.etcd.faults.lost_answers, world.etcd.faults.lost_calls = answers, calls


def revoke_leases(world: World) -> None:
    """End all sessions."""
    if world.happens("all leases are revoked"):
        world.etcd.revoke_all()


async def store_down(world: World) -> None:
    """S5: the store answers nobody for longer than sessions last."""
    registered = world.checks.image.brokers
    stop_the_store(world)
    await pass_s(60)
    world.etcd.faults.is_down = False
    await world.all_ready(30)
    await pass_s(10)
    assert world.checks.image.brokers == registered, "a broker was fenced after the outage"


async def lost_answers(world: World) -> None:
    """S6: calls and answers of the store are lost, and late."""
    faults = world.etcd.faults
    lose_answers(world, 0.2, 0.05)
    slow_the_store_down(world, 0.05)
    await pass_s(FAULTS_S)
    faults.delay_s = STORE_DELAY_S


async def stale_controller(world: World) -> None:
    """S7: the controller is frozen until another one is elected, and resumes what it was doing.

    The store is slow, so that commits of the controller are on their way when it is frozen.
    """
    slow_the_store_down(world, 0.1)
    for _ in world.rounds(3):
        node = world.nodes[world.checks.image.controller_id]
        if node.freeze():
            await world.until(
                lambda node=node: world.checks.image.controller_id != node.node_id,
                60,
                "another controller is elected",
            )
        await pass_s(world.random.random())
        world.note(f"resume {node.node_id}")
        node.gateway.release()
        world.network.heal()
        await pass_s(world.random.random() * 3)
    world.etcd.faults.delay_s = STORE_DELAY_S


async def leases(world: World) -> None:
    """S8: leases are revoked early, and end early and late."""
    faults, random = world.etcd.faults, world.random
    for _ in world.rounds(10):
        factor = random.choice((0.2, 0.5, 1.0, 3.0))
        if world.happens(f"leases end after {factor:g} times their time"):
            faults.lease_factor = factor
        if random.random() < 0.4:
            revoke_leases(world)
        await pass_s(random.random() * 5)


async def dead_watch(world: World) -> None:
    """S9: watches stay silent; a broker has caught up within one keepalive interval."""
    for _ in world.rounds(5):
        node = world.random.choice(list(world.nodes.values()))
        node.silence_the_watch()
        await pass_s(world.random.random())
        revision = world.checks.image.revision
        await world.until(
            lambda node=node, revision=revision: node.broker.image.revision >= revision,
            KEEP_MS / 1000 + 0.2,
            f"broker {node.node_id} has followed to {revision}",
        )


async def kills(world: World) -> None:
    """S19, S24: brokers die at any moment, and come back."""
    random = world.random
    for _ in world.rounds(6):
        node = random.choice(list(world.nodes.values()))
        if not node.is_down:
            stop = node.stop if random.random() < 0.3 else node.kill
            stop()
        await pass_s(random.choice((0.05, 0.5, 3.0, 10.0)) * random.random())
        if node.is_down and random.random() < 0.8:
            node.start()
        await pass_s(random.random() * 2)


async def slow_network(world: World) -> None:
    """S20: messages between all take very different times, so that they overtake each other."""
    world.network.slow_down(0.3)
    slow_the_store_down(world, 0.1)
    await pass_s(FAULTS_S)
    world.network.delay_s, world.etcd.faults.delay_s = USUAL_DELAY_S, STORE_DELAY_S


async def drifting_clocks(world: World) -> None:
    """S27: clocks run 1 % fast or slow, and dates jump by hours."""
    random = world.random
    for node in world.nodes.values():
        node.drift_by(random.uniform(0.99, 1.01))
    for _ in world.rounds(6):
        node = random.choice(list(world.nodes.values()))
        node.jump_by(random.randint(-8, 8))
        await pass_s(random.random() * 10)


async def everything(world: World) -> None:
    """S28 at replication factor 1: all faults, mixed."""
    random, faults = world.random, world.etcd.faults
    for _ in world.rounds(12):
        node = random.choice(list(world.nodes.values()))
        match random.randrange(9):
            case 0 | 1 | 2 if not node.is_down:
                (node.stop if random.random() < 0.3 else node.kill)()
            case 3:
                lose_answers(world, 0.3 * random.random(), 0.1)
            case 4:
                revoke_leases(world)
            case 5:
                node.silence_the_watch()
            case 6:
                node.freeze()
            case 7:
                _cut(world, random, node)
            case _:
                faults.is_down = False
                if random.random() < 0.5:
                    stop_the_store(world)
        await pass_s(random.random() * random.choice((0.1, 2, 8)))
        if random.random() < 0.5:
            _ease(world, random)


def _cut(world: World, random: Random, node: Node) -> None:
    other = random.choice([one for one in (*world.nodes, "producer") if one != node.node_id])
    world.network.cut(node.node_id, other)
    node.gateway.is_cut = False
    if random.random() < 0.5:
        node.leave_the_store()


def _ease(world: World, random: Random) -> None:
    """End some faults."""
    for node in world.nodes.values():
        if random.random() < 0.5:
            node.gateway.release()
            node.gateway.is_cut = False
        if node.is_down and random.random() < 0.7:
            world.note(f"start {node.node_id}")
            node.start()
    world.network.heal()
    if random.random() < 0.5:
        world.etcd.faults.is_down = False

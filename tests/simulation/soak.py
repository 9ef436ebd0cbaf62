"""S28: all faults of machines, processes, networks, clocks and the store, mixed, under all clients.

Rules:

- What takes data from a machine (a power cut, a new disk, a disk that fails) happens only while all
  replicas are in sync. So fewer than min ISR replicas lose something at a time, as KIP-966 asks.
- Everything else happens at any moment, several at a time, and some of it ends now and then.
"""

from collections.abc import Callable

from tests.simulation.failures import TOPIC, WRITERS
from tests.simulation.groups import mates
from tests.simulation.more_clients import MATES, with_workloads
from tests.simulation.scenarios import lose_answers, revoke_leases, stop_the_store
from tests.simulation.virtual_time import pass_s
from tests.simulation.world import Node, World

STEPS = 16


def _kill(world: World, node: Node) -> None:
    node.kill()


def _stop(world: World, node: Node) -> None:
    node.stop()


def _freeze(world: World, node: Node) -> None:
    node.freeze()


def _cut(world: World, node: Node) -> None:
    other = world.random.choice([one for one in (*world.nodes, *WRITERS) if one != node.node_id])
    cut = world.network.cut if world.random.random() < 0.5 else world.network.cut_one_way
    pair = (node.node_id, other) if world.random.random() < 0.5 else (other, node.node_id)
    cut(*pair)


def _reset(world: World, node: Node) -> None:
    world.network.reset(node.node_id, *world.nodes, *WRITERS)


def _leave_the_store(world: World, node: Node) -> None:
    node.leave_the_store()


def _silence_the_watch(world: World, node: Node) -> None:
    node.silence_the_watch()


def _stop_the_store(world: World, node: Node) -> None:
    stop_the_store(world)


def _lose_answers(world: World, node: Node) -> None:
    lose_answers(world, 0.3 * world.random.random(), 0.1)


def _revoke_leases(world: World, node: Node) -> None:
    revoke_leases(world)


def _jump(world: World, node: Node) -> None:
    node.jump_by(world.random.randint(-8, 8))


def _lose_power(world: World, node: Node) -> None:
    if world.is_whole():
        node.lose_power()


def _lose_disk(world: World, node: Node) -> None:
    if world.is_whole():
        node.kill()
        node.wipe()


def _fail_disk(world: World, node: Node) -> None:
    if world.is_whole():
        calls = world.random.randrange(10)
        if world.happens(f"the disk of {node.node_id} fails after {calls} calls"):
            node.disk.fail(calls)


FAULTS: tuple[Callable[[World, Node], None], ...] = (
    *(_kill, _kill, _stop, _freeze, _cut, _cut, _reset, _leave_the_store, _silence_the_watch),
    *(_stop_the_store, _lose_answers, _revoke_leases, _jump, _lose_power, _lose_disk, _fail_disk),
)


async def everything(world: World) -> None:
    """S28: clients of every kind work under all faults."""
    for node in world.nodes.values():
        node.drift_by(world.random.uniform(0.99, 1.01))
    await with_workloads(world, _mixed, *mates(world, TOPIC, MATES))


async def _mixed(world: World) -> None:
    random = world.random
    for _ in world.rounds(STEPS):
        node = random.choice([one for one in world.nodes.values() if one.is_wanted] or [None])
        if node is not None:
            random.choice(FAULTS)(world, node)
        await pass_s(random.random() * random.choice((0.1, 2, 8)))
        if random.random() < 0.6:
            _ease(world)


def _ease(world: World) -> None:
    """End some faults."""
    random = world.random
    for node in world.nodes.values():
        if random.random() < 0.5:
            node.gateway.release()
            node.gateway.is_cut = False
        if not node.is_wanted and random.random() < 0.7:
            world.note(f"start {node.node_id}")
            node.start()
    world.network.heal()
    world.etcd.faults.lost_answers = 0.0
    if random.random() < 0.7:
        world.etcd.faults.is_down = False

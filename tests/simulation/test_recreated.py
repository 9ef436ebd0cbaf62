"""S25: a topic is deleted and created again while a broker is away."""

from contextlib import suppress
from pathlib import Path

from kwire.client.topics import create_topics, delete_topics
from tests.simulation.readers import Careless
from tests.simulation.run import simulate
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import FAILURES, PARTITIONS, IdempotentProducer, read_all
from tests.simulation.world import Node, World

TOPIC = "again"
STEPS = 12
ADMINS = ("setup", "deleter")
"""Those who change topics reach no broker that can't: they would be told so after 30 s."""


async def _create(world: World) -> bytes:
    """Create the topic, and again if that fails; its id."""
    topics = world.checks.image.topics_by_name
    while TOPIC not in topics:
        with suppress(*FAILURES):
            await create_topics(
                world.client(ADMINS[0]), [TOPIC], partitions=PARTITIONS, replication_factor=3
            )
        await pass_s(0.1)
        topics = world.checks.image.topics_by_name
    return topics[TOPIC].topic_id


async def _delete(world: World) -> None:
    """Delete it, and again if that fails."""
    while TOPIC in world.checks.image.topics_by_name:
        with suppress(*FAILURES):
            await delete_topics(world.client(ADMINS[1]), [TOPIC])
        await pass_s(0.1)


def _leave(world: World, node: Node) -> None:
    """A broker is away: its process, its power, or only its ways to the store and the others."""
    match world.random.randrange(4):
        case 0:
            node.kill()
        case 1:
            node.stop()
        case 2:
            node.lose_power()
        case _:
            node.leave_the_store()
            for other in (*world.nodes, *ADMINS):
                if other != node.node_id:
                    world.network.cut(node.node_id, other)


def test_a_topic_that_was_created_again_begins_anew(seed: int, tmp_path: Path) -> None:
    """No record of the old topic is in the new one, whoever comes back with the old log."""

    async def scenario(world: World) -> None:
        old_id = await _create(world)
        await world.all_ready(20)
        before = IdempotentProducer(world, "before", TOPIC)
        careless = Careless(world, "careless", TOPIC)
        for _ in range(STEPS):
            await before.step()
            await careless.step()
        node = world.random.choice(list(world.nodes.values()))
        _leave(world, node)
        careless.pause_s = 0.1
        world.nursery.start_soon(careless.run)
        await pass_s(world.random.random() * 8)
        careless.stops = True
        await careless.has_ended.wait()
        await _delete(world)
        await pass_s(world.random.random())
        assert await _create(world) != old_id
        after = IdempotentProducer(world, "after", TOPIC)
        after.pause_s = 0.1
        world.nursery.start_soon(after.run)
        await pass_s(2 + world.random.random() * 10)
        world.heal()
        await world.all_ready(60)
        for _ in range(STEPS):
            await pass_s(0.1)
        after.stops = True
        await after.has_ended.wait()
        assert after.done
        await world.until(world.checks.all_equal, 30, "all replicas are equal")
        world.checks.check_equal()
        found = [v for values in (await read_all(after.cluster, TOPIC)).values() for v in values]
        assert not [value for value in found if not value.startswith("after:")]
        await after.check()

    simulate(seed, tmp_path, scenario, replicated=True)

"""Scenarios of replicas, by the names and numbers of the cluster's design.

``replicated`` lets clients work at replication factor 3 while one of them comes and goes.
"""

from collections.abc import Iterable

from kwire.broker.coordinator_lookup import partition_for
from kwire.client.topics import create_topics
from kwire.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tests.simulation.copiers import Copier
from tests.simulation.members import Member
from tests.simulation.network import USUAL_DELAY_S
from tests.simulation.readers import Careless, EndWatcher, ReplicaReader
from tests.simulation.scenarios import TOPICS, Fault, finish
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import IdempotentProducer, OffsetCommitter, Workload
from tests.simulation.world import Node, World

TOPIC = TOPICS[0]
BUSY_S = 0.08
WRITERS = ("one", "two", "careless", "copier", "bumper", "group")
OTHERS = (
    "reader",
    *(f"ends {number}" for number in range(4)),
    *(f"member {number}" for number in range(3)),
)
LAG_S = 10.0


async def replicated(world: World, fault: Fault) -> None:
    """Let busy clients work while a fault comes and goes, then heal everything, and check."""
    client = world.client("setup")
    made = await create_topics(client, TOPICS, partitions=6, replication_factor=3)
    assert not [one for one in made.values() if isinstance(one, Exception)], made
    workloads: list[Workload] = [
        IdempotentProducer(world, "one", TOPIC),
        IdempotentProducer(world, "two", TOPIC),
        Careless(world, "careless", TOPIC),
        ReplicaReader(world, "reader", TOPIC),
        *(EndWatcher(world, name, TOPIC) for name in OTHERS[1:5]),
        OffsetCommitter(world, "group", TOPIC),
        *(Member(world, name) for name in OTHERS[5:]),
        Copier(world, "copier", TOPICS[1], bumps=False),
        Copier(world, "bumper", TOPICS[1], bumps=True),
    ]
    for workload in workloads:
        workload.pause_s = BUSY_S
        world.nursery.start_soon(workload.run)
    await pass_s(1)
    with world.faults.numbered():
        await fault(world)
    await finish(world, workloads)


def leader_of(world: World, topic: str = TOPIC, index: int = 0) -> Node:
    """The node that leads a partition by the metadata log, or any if none does."""
    row = world.checks.image.topics_by_name[topic].partitions[index]
    return world.nodes[row.leader if row.leader > 0 else row.replicas[0]]


def others_of(world: World, node: Node) -> list[Node]:
    """The other nodes."""
    return [one for one in world.nodes.values() if one is not node]


def cut_off(world: World, node: Node) -> None:
    """Cut a node from one of the others, or from both."""
    others = world.random.sample(others_of(world, node), world.random.choice((1, 1, 2)))
    for other in others:
        world.network.cut(node.node_id, other.node_id)


def silence(world: World, names: Iterable[str] = (*WRITERS, *OTHERS)) -> None:
    """Let nothing pass to and from these clients until the network heals."""
    if world.happens("some clients are silent"):
        for name in names:
            world.network.pause(name)


async def back(world: World, node: Node) -> None:
    """Start a node, and wait until all replicas are in sync."""
    world.note(f"start {node.node_id}")
    node.start()
    await world.all_ready(60)


async def leader_dies_with_tail(world: World) -> None:
    """S1: records that only the leader has, and then it dies."""
    for _ in world.rounds(3):
        node = leader_of(world)
        cut_off(world, node)
        await pass_s(world.random.random() * 2)
        node.kill()
        world.network.heal()
        await pass_s(world.random.random() * 3)
        await back(world, node)


async def fast_double_election(world: World) -> None:
    """S2: leaders change within one fetch interval (KIP-279)."""
    for _ in world.rounds(4):
        for _ in range(3):
            node = leader_of(world, index=world.random.randrange(6))
            node.kill()
            await pass_s(world.random.random() * 0.3)
            node.start()
            await pass_s(world.random.random() * 0.3)
        await world.all_ready(60)


async def epochs_without_records(world: World) -> None:
    """S3: elections without an append between them."""
    silence(world, WRITERS)
    await fast_double_election(world)
    world.network.heal()
    await leader_dies_with_tail(world)


async def zombie_leader(world: World) -> None:
    """S4: a leader is cut from the store and from the others, not from clients."""
    node = leader_of(world)
    for other in others_of(world, node):
        world.network.cut(node.node_id, other.node_id)
    node.leave_the_store()
    await pass_s(20)


async def session_ends_in_silence(world: World) -> None:
    """A broker loses its session while nobody writes: its followers join again (KIP-903).

    Its process and its fetch sessions go on, so that nothing but its broker epoch is new.
    """
    silence(world)
    await pass_s(3)
    for node in world.random.sample(list(world.nodes.values()), 2):
        node.leave_the_store()
        await pass_s(20)
        node.gateway.is_cut = False
        await world.all_ready(20)


async def isr_flap(world: World) -> None:
    """S10: a follower comes and goes around the lag limit."""
    node = world.random.choice(others_of(world, leader_of(world)))
    for _ in world.rounds(4):
        for other in others_of(world, node):
            world.network.cut(node.node_id, other.node_id)
        await pass_s(LAG_S * world.random.uniform(0.5, 1.7))
        world.network.heal()
        await pass_s(world.random.random() * 3)


async def expand_races_restart(world: World) -> None:
    """S11: a follower restarts without its data while its leader adds it (KIP-903)."""
    for _ in world.rounds(4):
        node = world.random.choice(list(world.nodes.values()))
        node.kill()
        await pass_s(world.random.random())
        node.start()
        await world.until(lambda node=node: node.broker is not None, 30, "it is back")
        await pass_s(world.random.random() * 0.2)
        node.kill()
        node.wipe()
        await pass_s(world.random.random() * 0.2)
        await back(world, node)


async def last_replica_standing(world: World) -> None:
    """S12: the ISR shrinks to one below min ISR, and that machine loses everything (KIP-966)."""
    last = leader_of(world)
    first, second = others_of(world, last)
    first.kill()
    await pass_s(3 + world.random.random())
    second.kill()
    await pass_s(3 + world.random.random())
    last.kill()
    last.wipe()
    second.start()
    await pass_s(world.random.random())
    first.start()
    await pass_s(2)
    await back(world, last)


async def one_leaves_and_comes_back(world: World) -> None:
    """A broker loses power, is unregistered, and comes back first, without its last pages."""
    last = leader_of(world)
    first, second = others_of(world, last)
    first.kill()
    await pass_s(3 + world.random.random())
    second.lose_power()
    await pass_s(3 + world.random.random())
    await unregister(world, second)
    last.kill()
    await pass_s(1)
    second.start()
    await pass_s(15)
    first.start()
    await pass_s(2)
    await back(world, last)


async def unregister(world: World, node: Node) -> None:
    """Let a dead broker leave the cluster, as an operator does; a live one may not."""
    answer = await world.client("operator").ask_controller(
        UnregisterBrokerRequest(broker_id=node.node_id),
        UnregisterBrokerResponse,
        lambda answer: [answer.error_code],
    )
    left = node.node_id not in world.checks.image.brokers
    assert left or (answer.error_code and node.is_wanted), answer


async def wiped_while_all_are_away(world: World) -> None:
    """All stop, and the last one of them comes back first, without its data: it never leads."""
    nodes = world.random.sample(list(world.nodes.values()), 3)
    for node in nodes:
        node.kill()
        await pass_s(world.random.random() * 2)
    last = nodes[-1]
    last.wipe()
    last.start()
    await pass_s(15)
    for node in nodes[:-1]:
        node.start()
    await world.all_ready(60)


async def the_stale_return_first(world: World) -> None:
    """P7, simulated: a replica that was out of sync is the first to come back: it never leads."""
    stale = world.random.choice(list(world.nodes.values()))
    first, second = others_of(world, stale)
    stale.kill()
    await pass_s(3 + world.random.random())
    first.kill()
    second.kill()
    await pass_s(1)
    stale.start()
    await pass_s(15)
    first.start()
    await pass_s(2)
    await back(world, second)


async def markers_die_young(world: World) -> None:
    """S19: the next leader of a partition lacks markers, whose coordinator goes on elsewhere."""
    world.network.slow_down(0.03)  # transactions are mostly under way
    for number in world.rounds(6):
        topics = world.checks.image.topics_by_name
        silence(world, {*WRITERS, *OTHERS} - {"copier", "bumper"})
        transactional_id = ("copier", "bumper")[number % 2]
        home = partition_for(transactional_id, len(topics["__transaction_state"].partitions))
        coordinator = leader_of(world, "__transaction_state", home).node_id
        row = world.random.choice(
            [one for one in topics[TOPICS[1]].partitions if one.leader != coordinator]
        )
        [heir] = set(row.replicas) - {row.leader, coordinator}
        world.network.cut(row.leader, heir)
        await pass_s(0.5 + world.random.random())
        world.nodes[row.leader].kill()
        world.network.heal()
        await pass_s(3)
        await back(world, world.nodes[row.leader])
    world.network.delay_s = USUAL_DELAY_S


async def kill_all_same_boot(world: World) -> None:
    """S14: all processes die, the machines stay: nothing is lost."""
    for _ in world.rounds(2):
        for node in world.nodes.values():
            node.kill()
            await pass_s(world.random.choice((0, 0, 0.5)) * world.random.random())
        await pass_s(world.random.random() * 3)
        for node in world.nodes.values():
            node.start()
        await world.all_ready(60)
        await pass_s(2)


async def power_cuts(world: World) -> None:
    """S13 of one machine at a time: what others count on is taken back by no lost page."""
    for _ in world.rounds(5):
        node = world.random.choice(list(world.nodes.values()))
        node.lose_power()
        await pass_s(world.random.random() * world.random.choice((0.2, 3.0)))
        await back(world, node)
        await pass_s(world.random.random())


async def leaders_die_young(world: World) -> None:
    """S15: a follower leads before it knew the watermark, and dies again."""
    world.network.slow_down(0.05)
    for _ in world.rounds(6):
        node = leader_of(world, index=world.random.randrange(6))
        world.network.cut(*(other.node_id for other in others_of(world, node)))
        node.kill()
        await pass_s(0.5 + world.random.random())
        world.network.heal()
        node.start()
        await pass_s(1 + world.random.random())
    world.network.delay_s = USUAL_DELAY_S


async def coordinators_move(world: World) -> None:
    """S22, S23: leaders of the coordinators' topics are cut off, and die with what they told."""
    for _ in world.rounds(4):
        topic = world.random.choice(("__consumer_offsets", "__transaction_state"))
        if topic not in world.checks.image.topics_by_name:
            await pass_s(1)
            continue
        node = leader_of(world, topic, world.random.randrange(3))
        cut_off(world, node)
        await pass_s(world.random.random() * 2)
        node.kill()
        world.network.heal()
        await pass_s(1 + world.random.random())
        await back(world, node)


async def one_way(world: World) -> None:
    """What a broker sends doesn't arrive at another one, but what it is sent does."""
    for _ in world.rounds(4):
        node = world.random.choice((leader_of(world), *world.nodes.values()))
        for other in world.random.sample(others_of(world, node), world.random.choice((1, 2))):
            pair = [node.node_id, other.node_id]
            world.random.shuffle(pair)
            world.network.cut_one_way(*pair)
        if world.random.random() < 0.4:
            world.network.cut_one_way(node.node_id, world.random.choice(WRITERS))
        await pass_s(world.random.random() * world.random.choice((1, 1.3 * LAG_S)))
        if world.random.random() < 0.4:
            node.kill()
            await pass_s(world.random.random())
        world.network.heal()
        world.start_all()
        await world.all_ready(60)


async def connections_break(world: World) -> None:
    """Connections are reset at any moment, between brokers and with clients."""
    places = (*world.nodes, *WRITERS)
    for _ in world.rounds(60):
        one, other = world.random.sample(places, 2)
        world.network.reset(one, other)
        await pass_s(world.random.random() * 0.3)


SCENARIOS = [
    one_way,
    connections_break,
    leader_dies_with_tail,
    fast_double_election,
    epochs_without_records,
    zombie_leader,
    session_ends_in_silence,
    isr_flap,
    expand_races_restart,
    last_replica_standing,
    the_stale_return_first,
    wiped_while_all_are_away,
    one_leaves_and_comes_back,
    kill_all_same_boot,
    power_cuts,
    leaders_die_young,
    coordinators_move,
    markers_die_young,
]

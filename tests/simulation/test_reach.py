"""Brokers of a simulated cluster that can't reach the metadata store, alone or all of them."""

from pathlib import Path

import trio

from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.client.topics import create_topics
from kwire.errors import ErrorCode, KafkaError
from kwire.record.records import BatchBuilder
from tests.broker.leading import NotedProduce
from tests.simulation.run import simulate
from tests.simulation.test_in_sync import (
    BACK_WITHIN_S,
    TOPIC,
    are_in_sync,
    made_topic,
    rows_of_topic,
)
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import IdempotentProducer
from tests.simulation.world import DATE_MS, KEEP_MS, SESSION_MS, Node, World

LOOK_S = 0.1
OUTAGE_S = 60
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER


def _led_by(node: Node) -> list[LeaderPartition]:
    """The topic's partitions that a broker leads, as it sees that."""
    return [one for one in node.broker.partitions() if one.topic == TOPIC]


def _takes(partition: LeaderPartition, acks: int) -> bool:
    """Whether a record is appended; else the partition may be another's."""
    builder = BatchBuilder()
    builder.add(DATE_MS, None, b"value")
    try:
        partition.append(builder.build(), now_ms=DATE_MS, required_acks=acks)
    except KafkaError as error:
        if error.code is not MOVED:
            raise
        return False
    return True


def test_a_leader_that_is_cut_off_acknowledges_nothing_that_is_lost(
    seed: int, tmp_path: Path
) -> None:
    """S4: acks=1 up to its deadline, before others lead; acks=all without followers never."""

    async def scenario(world: World) -> None:
        await made_topic(world)
        zombie = world.random.choice(list(world.nodes.values()))
        led = _led_by(zombie)
        assert led
        zombie.gateway.is_cut = True
        for other in sorted(set(world.nodes) - {zombie.node_id}):
            world.network.cut(zombie.node_id, other)
        await pass_s(LOOK_S)  # what was on its way has arrived
        began_s = last_s = trio.current_time()
        acks = NotedProduce()
        for slot, partition in enumerate(led):
            assert _takes(partition, -1)
            partition.wait_for(partition.log.log_end_offset, acks, slot)

        def are_led_elsewhere() -> bool:
            return all(row.leader != zombie.node_id for row in rows_of_topic(world))

        while not are_led_elsewhere():
            assert trio.current_time() - began_s < 2 * SESSION_MS / 1000
            taken = {_takes(partition, 1) for partition in led}
            assert len(taken) == 1
            if taken == {True}:
                last_s = trio.current_time()
            await pass_s(LOOK_S)
        assert SESSION_MS / 2000 < last_s - began_s < SESSION_MS / 1000
        assert last_s < trio.current_time() - LOOK_S
        assert not any(_takes(partition, 1) for partition in led)
        zombie.gateway.is_cut = False
        world.network.heal()
        await world.until(lambda: are_in_sync(world, [1, 2, 3]), 20, "all are in sync")
        assert sorted(acks.told) == [(slot, MOVED) for slot in range(len(led))]

    simulate(seed, tmp_path, scenario)


def test_an_outage_of_the_store_costs_no_acknowledgement(seed: int, tmp_path: Path) -> None:
    """S5: acks=all goes on; what needs a commit says so; nobody is fenced afterwards."""

    async def scenario(world: World) -> None:
        await made_topic(world)
        producer = IdempotentProducer(world, "p", TOPIC)
        while not producer.done:
            await producer.step()
        epochs = {node: one.broker.image.brokers[node].epoch for node, one in world.nodes.items()}
        rows = rows_of_topic(world)
        world.etcd.faults.is_down = True
        began_s = trio.current_time()
        while trio.current_time() - began_s < OUTAGE_S:
            step_s = trio.current_time()
            await producer.step()
            assert trio.current_time() - step_s < 1
            await pass_s(0.5)
        for node in world.nodes.values():
            assert not any(_takes(partition, 1) for partition in _led_by(node))
        admin = world.client("admin", request_timeout_s=40.0, give_up_s=1.0)
        made = await create_topics(admin, ["more"], partitions=1)
        assert isinstance(made["more"], KafkaError)
        assert made["more"].code is ErrorCode.REQUEST_TIMED_OUT
        world.etcd.faults.is_down = False
        await pass_s(2 * KEEP_MS / 1000)
        for node_id, node in world.nodes.items():
            assert node.broker.image.brokers[node_id].epoch == epochs[node_id]
            assert all(_takes(partition, 1) for partition in _led_by(node))
        assert rows_of_topic(world) == rows
        await world.until(lambda: are_in_sync(world, [1, 2, 3]), BACK_WITHIN_S, "all is replicated")
        await producer.check()

    simulate(seed, tmp_path, scenario)

"""P7, simulated: a replica that lacks records leads, because its topic allows that."""

from pathlib import Path

import pytest

from tests.simulation.moves import TOPIC, new_producer, rows_of
from tests.simulation.run import simulate
from tests.simulation.virtual_time import pass_s
from tests.simulation.world import Node, World

WITHIN_S = 1.0
"""From the moment in which the replica's broker serves."""


def leads(node: Node, numbers: list[int]) -> bool:
    """Whether a broker has taken up the leadership of these partitions."""
    led = {one.index for one in node.broker.partitions() if one.topic == TOPIC}
    return led.issuperset(numbers)


def test_a_replica_that_lacks_records_leads_where_it_may(
    seed: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Soon after its start; the log tells from which offset on records are lost, and no others are.

    Afterwards all replicas are equal to its log.
    """

    async def scenario(world: World) -> None:
        allowed = {"min_insync_replicas": "1", "unclean_leader_election_enable": "true"}
        producer = await new_producer(world, factor=2, **allowed)
        for _ in range(20):
            await producer.step()
        stale, last = world.random.sample(list(world.nodes.values()), 2)
        both = {stale.node_id, last.node_id}
        shared = [n for n, row in enumerate(rows_of(world)) if set(row.replicas) == both]
        assert shared
        stale.kill()
        await world.until(
            lambda: all(stale.node_id not in row.isr for row in rows_of(world)), 20, "it is out"
        )
        for _ in range(20):
            await producer.step()
        last.kill()
        await pass_s(world.random.random() * world.random.choice((0, 10)))
        topic_id = world.checks.image.topics_by_name[TOPIC].topic_id
        ends = {n: world.checks.truths[topic_id, n].end_offset for n in shared}
        world.checks.may_lose()
        stale.start()
        await world.until(lambda: stale.broker is not None, 30, "it serves")
        await world.until(lambda: leads(stale, shared), WITHIN_S, "it leads")
        kept = {n: stale.broker.partition(TOPIC, n).log.log_end_offset for n in shared}
        assert any(kept[n] < ends[n] for n in shared)
        for number, offset in kept.items():
            said = f"{TOPIC}-{number} is led by a replica that may lack records"
            assert f"{said} (unclean election): records from offset {offset} on" in caplog.text
        world.heal()
        await world.all_ready(60)
        world.checks.check_equal()
        assert {(index, offset) for _, index, offset in world.checks.lost} == {
            (n, kept[n]) for n in shared if kept[n] < ends[n]
        }

    simulate(seed, tmp_path, scenario, replicated=True)

"""A topic whose replicas move: what scenarios of leaders and reassignments begin with."""

from collections.abc import Mapping
from contextlib import suppress

from kwire.client.cluster import Cluster
from kwire.client.topics import create_topics
from kwire.errors import KafkaError
from kwire.metadata.image import PartitionImage
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.simulation.workloads import PARTITIONS, IdempotentProducer
from tests.simulation.world import TooLate, World

TOPIC = "t"


async def new_producer(world: World, factor: int = 3, **configs: str) -> IdempotentProducer:
    client = world.client("setup")
    named = {name.replace("_", "."): value for name, value in configs.items()}
    made = await create_topics(
        client, [TOPIC], partitions=PARTITIONS, replication_factor=factor, configs=named
    )
    assert not isinstance(made[TOPIC], KafkaError), made
    await world.all_ready(20)
    return IdempotentProducer(world, "p", TOPIC)


def rows_of(world: World) -> tuple[PartitionImage, ...]:
    return world.checks.image.topics_by_name[TOPIC].partitions


async def move(world: World, replicas: list[list[int]]) -> None:
    """Give the topic's partitions these replicas."""
    answer = await ask_to_move(world.client("admin"), dict(enumerate(replicas)))
    assert not any(one.error_code for topic in answer.responses for one in topic.partitions)


async def check_places(world: World) -> None:
    """The running brokers have a partition's directory exactly if they have its replica.

    A broker that has just learnt that it has no replica any more still renames the directory.
    """
    with suppress(TooLate):
        await world.until(lambda: not _misplaced(world), 5, "directories are where they should be")
    assert not (wrong := _misplaced(world)), wrong


def _misplaced(world: World) -> list[str]:
    """The brokers whose directories are not those of their replicas."""
    wrong = []
    for node in world.nodes.values():
        given = {n for n, row in enumerate(rows_of(world)) if node.node_id in row.replicas}
        kept = {int(one.name.partition("-")[2]) for one in node.data.glob(f"{TOPIC}-[0-9]")}
        if kept != given:
            wrong.append(f"broker {node.node_id} keeps {kept}, and has replicas of {given}")
    return wrong


async def ask_to_move(
    admin: Cluster, replicas: Mapping[int, list[int] | None], topic: str = TOPIC
) -> AlterPartitionReassignmentsResponse:
    """Ask for other replicas of some partitions, or for a cancellation; what is answered."""
    partitions = [
        ReassignablePartition(partition_index=index, replicas=nodes)
        for index, nodes in replicas.items()
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=partitions)]
    )
    return await admin.ask_controller(
        request, AlterPartitionReassignmentsResponse, lambda answer: [answer.error_code]
    )

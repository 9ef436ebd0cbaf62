"""AlterReplicaLogDirs: moves replicas between the log directories of this broker (KIP-113).

Behavior: a move begins with the answer, and DescribeLogDirs shows it until it has ended. For a
replica that this broker doesn't have yet, the answer is REPLICA_NOT_AVAILABLE, and the replica is
created in the directory later.
"""

from typing import TYPE_CHECKING, Any

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import ALTER, CLUSTER, FAILED, Serve, right
from kwire.handlers.lib.waiting import in_task
from kwire.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization


@in_task
async def handle(
    request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    """Begin or end the moves, and report each partition."""
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            await context.work.give_way()
            if topic.name not in results:
                results[topic.name] = AlterReplicaLogDirTopicResult(
                    topic_name=topic.name, partitions=[]
                )
            for index in topic.partitions:
                await context.work.give_way()
                code = await _request_move(context, (topic.name, index), directory.path)
                results[topic.name].partitions.append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                )
    return AlterReplicaLogDirsResponse(results=list(results.values()))


async def _request_move(context: RequestContext, key: tuple[str, int], path: str) -> ErrorCode:
    try:
        await context.broker.replica_moves.request_move(key, path)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


@right("ALTER on the cluster")
async def _alter_on_cluster(
    request: AlterReplicaLogDirsRequest, rights: "Authorization", serve: Serve
) -> Any:
    if rights.may_on_cluster(ALTER):
        return await serve(request)

    def refused(index: int) -> AlterReplicaLogDirPartitionResult:
        return AlterReplicaLogDirPartitionResult(partition_index=index, error_code=FAILED[CLUSTER])

    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name, partitions=await rights.each(refused, topic.partitions)
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


RIGHTS = (_alter_on_cluster,)

"""AlterReplicaLogDirs: moves replicas between the log directories of this broker (KIP-113).

Behavior: a move begins with the answer, and DescribeLogDirs shows it until it has ended. For a
replica that this broker doesn't have yet, the answer is REPLICA_NOT_AVAILABLE, and the replica is
created in the directory later.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


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
        await context.broker.replica_moves.ask(key, path)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE

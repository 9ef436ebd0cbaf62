"""What the APIs of the share coordinator have in common: each partition has a row of its own.

Their senders are brokers, so each of them needs CLUSTER_ACTION on the cluster.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kwire.errors import KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.slices import give_way
from kwire.share.key import SharePartitionKey

if TYPE_CHECKING:
    from kwire.broker.share_states import ShareStates


async def answer_rows(
    request: Any,
    context: RequestContext,
    result: Callable[..., Any],
    row: Callable[..., Any],
    serve: "Callable[[ShareStates, SharePartitionKey, Any, Any], None]",
) -> list[Any]:
    """The results of a request: a ``result`` for each topic, with a ``row`` for each partition.

    ``serve(states, key, wanted, row)`` fills in a row; its KafkaError goes into the row.
    """
    states = context.broker.share_states
    results: list[Any] = []
    for topic in request.topics:
        rows: list[Any] = []
        for wanted in topic.partitions:
            await give_way(context.work)
            answer = row(partition=wanted.partition)
            key = SharePartitionKey(request.group_id, topic.topic_id, wanted.partition)
            try:
                serve(states, key, wanted, answer)
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message or None
            rows.append(answer)
        results.append(result(topic_id=topic.topic_id, partitions=rows))
    return results

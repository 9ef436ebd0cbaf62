"""Asks the leader of each of many partitions, and asks again if a leader has moved."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias, TypeVar

import trio

from kwire.client.cluster import TRY_AGAIN, Cluster
from kwire.client.errors import CannotConnect, ConnectionLost
from kwire.errors import ErrorCode, KafkaError

V = TypeVar("V")
W = TypeVar("W")


class TopicPartition(NamedTuple):
    """A partition of a topic; printed as Kafka names its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Outcome: TypeAlias = tuple[int, W]
"""An error code, and the leader's answer about one partition."""

AskLeader: TypeAlias = Callable[
    [int, dict[TopicPartition, V]], Awaitable[dict[TopicPartition, Outcome[W]]]
]
"""Asks the broker with a node id about some of its partitions."""


async def ask_leaders(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, V],
    ask: "AskLeader[V, W]",
    *,
    repeats_lost: bool = True,
    once: bool = False,
) -> dict[TopicPartition, W | KafkaError]:
    """The answer of each partition's leader, or its error.

    Partitions are asked again while the answer is an error of TRY_AGAIN, unless they are asked
    only ``once``. ``repeats_lost`` says whether a request whose answer was lost may be sent again.
    """
    results: dict[TopicPartition, W | KafkaError] = {}
    left = dict(wanted)
    backoff, patience = cluster.backoff(), cluster.patience()
    deadline_s = trio.current_time() + (0 if once else cluster.settings.give_up_s)
    codes = TRY_AGAIN | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}  # the known leader may be wrong
    while left:
        outcomes = await _round(cluster, left, ask, repeats_lost)
        pause_s = backoff.next_s()
        is_late = trio.current_time() + pause_s > deadline_s
        again: list[KafkaError] = []
        for partition, outcome in outcomes.items():
            failure = outcome if isinstance(outcome, KafkaError) else None
            if failure is None or failure.code not in codes or is_late:
                results[partition] = outcome
                del left[partition]
            else:
                cluster.known_leaders.pop(partition, None)
                again.append(failure)
        codes = TRY_AGAIN
        if left:
            patience.failed(again)
            await trio.sleep(pause_s)
    return {partition: results[partition] for partition in wanted}


async def _round(
    cluster: Cluster,
    wanted: dict[TopicPartition, V],
    ask: "AskLeader[V, W]",
    repeats_lost: bool,
) -> dict[TopicPartition, W | KafkaError]:
    """Ask every leader once, all at the same time."""
    outcomes: dict[TopicPartition, W | KafkaError] = {}
    by_node: dict[int, dict[TopicPartition, V]] = {}
    for partition, leader in (await _leaders(cluster, wanted)).items():
        if isinstance(leader, KafkaError):
            outcomes[partition] = leader
        else:
            by_node.setdefault(leader, {})[partition] = wanted[partition]

    async def ask_one(node: int, mine: dict[TopicPartition, V]) -> None:
        try:
            answers = await ask(node, mine)
        except CannotConnect as error:
            for partition in mine:
                outcomes[partition] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(error))
            return
        except ConnectionLost as error:
            if not repeats_lost:
                raise
            for partition in mine:
                outcomes[partition] = KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error))
            return
        for partition, (number, value) in answers.items():
            outcomes[partition] = KafkaError(ErrorCode(number), str(partition)) if number else value

    await in_parallel([(ask_one, node, mine) for node, mine in by_node.items()])
    return outcomes


async def in_parallel(calls: Iterable[tuple[Callable[..., Awaitable[None]], int, V]]) -> None:
    """Await calls with two arguments at the same time; raises the first error, not in a group."""
    try:
        async with trio.open_nursery() as nursery:
            for function, node, argument in calls:
                nursery.start_soon(function, node, argument)
    except BaseExceptionGroup as group:
        raise first_error(group) from group


def first_error(error: BaseException) -> BaseException:
    """The error that matters in an exception group: the first that isn't a cancellation."""
    while isinstance(error, BaseExceptionGroup):
        inner = [one for one in error.exceptions if not isinstance(one, trio.Cancelled)]
        error = (inner or error.exceptions)[0]
    return error


async def _leaders(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | KafkaError]:
    """The known leader of each partition; the cluster is asked about the others."""
    known = cluster.known_leaders
    wanted = list(partitions)
    found: dict[TopicPartition, int | KafkaError] = {one: known.get(one, -1) for one in wanted}
    missing = [one for one in wanted if one not in known]
    if missing:
        found |= await find_leaders(cluster, missing)
    return found


class NoLeader(KafkaError):
    """A partition has no leader; ``epoch`` is its leader epoch, -1 if the broker doesn't say it.

    Records of later epochs are those that are written when it has a leader again.
    """

    def __init__(self, code: ErrorCode, partition: TopicPartition, epoch: int) -> None:
        super().__init__(code, f"{partition} has no leader")
        self.epoch = epoch


async def find_leaders(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | KafkaError]:
    """The node id of each partition's leader, asked anew, or why there is none."""
    wanted = list(partitions)
    answer = await cluster.metadata(sorted({partition.topic for partition in wanted}))
    found: dict[TopicPartition, int | KafkaError] = {}
    topic_errors: dict[str, int] = {}
    for topic in answer.topics:
        name = topic.name or ""
        topic_errors[name] = topic.error_code
        for row in topic.partitions:
            known = TopicPartition(name, row.partition_index)
            if row.leader_id >= 0:
                found[known] = row.leader_id
                cluster.known_leaders[known] = row.leader_id
            else:
                code = ErrorCode(row.error_code or ErrorCode.LEADER_NOT_AVAILABLE)
                found[known] = NoLeader(code, known, row.leader_epoch)
    for one in wanted:
        if one not in found:
            number = topic_errors.get(one.topic) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            found[one] = KafkaError(ErrorCode(number), f"{one} does not exist")
    return {one: found[one] for one in wanted}

"""Reads partitions up to their present ends, for ``kwire consume --exit``.

Partitions whose leader answers are read first, so that one without a leader doesn't hold up the
others. It is waited for afterwards, and named if it gets none. The cluster may still name a broker
that has just died as the leader, so each leader is asked once.
"""

from collections.abc import Iterable

from kwire.cli.leaderless import without_leader
from kwire.cli.positions import Start, start_positions
from kwire.cli.reading import Reader
from kwire.client.cluster import Cluster
from kwire.client.leaders import TopicPartition, find_leaders
from kwire.client.offsets import LATEST, all_or_raise, list_offsets
from kwire.errors import ErrorCode, KafkaError


async def read_to_the_end(
    cluster: Cluster, reader: Reader, partitions: Iterable[TopicPartition], start: Start
) -> None:
    """Read all partitions; KafkaError if some have no leader for long, or one that doesn't answer.

    The code is mostly LEADER_NOT_AVAILABLE.
    """
    left = list(partitions)
    has_read = False

    async def led() -> list[TopicPartition]:
        found = await find_leaders(cluster, left)
        named = [one for one, leader in found.items() if not isinstance(leader, KafkaError)]
        if not named:
            raise _without_leader(found, has_read=has_read)
        answers = await list_offsets(cluster, dict.fromkeys(named, LATEST), once=True)
        ready = [one for one, offset in answers.items() if not isinstance(offset, KafkaError)]
        if not ready:
            all_or_raise(answers)
        return ready

    while left and not reader.printer.is_full:
        ready = await cluster.retrying(led)
        positions = await start_positions(cluster, ready, start)
        await reader.read(positions, ends=await reader.ends(positions))
        has_read = True
        left = [one for one in left if one not in positions]


def _without_leader(found: dict[TopicPartition, int | KafkaError], *, has_read: bool) -> KafkaError:
    """The error for partitions of which none can be read."""
    for error in found.values():
        if isinstance(error, KafkaError) and error.code != ErrorCode.LEADER_NOT_AVAILABLE:
            return error
    rest = ", the records of the other partitions are printed" if has_read else ""
    return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{without_leader(found)}{rest}")

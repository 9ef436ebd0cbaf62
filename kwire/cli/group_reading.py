"""``kwire consume --group``: reading as a member of a group, with commits."""

import argparse
import sys

import trio

from kwire.cli.positions import BEGINNING, END, Start, late, start_positions
from kwire.cli.printing import Printer
from kwire.cli.reading import Reader
from kwire.client.cluster import Cluster
from kwire.client.errors import ClientError
from kwire.client.fetcher import Late
from kwire.client.group_offsets import committed_offsets
from kwire.client.leaders import TopicPartition
from kwire.client.members import GroupMember, open_member
from kwire.errors import KafkaError

COMMIT_INTERVAL_S = 5.0
LAST_COMMIT_TIMEOUT_S = 5.0


class _Commits:
    """Commits the offsets of printed records, from time to time."""

    def __init__(self, member: GroupMember, reader: Reader) -> None:
        self._member = member
        self._reader = reader
        self._committed: dict[TopicPartition, int] = {}
        self._next_s = trio.current_time() + COMMIT_INTERVAL_S

    async def from_time_to_time(self) -> None:
        """Commit if the last commit is long ago."""
        if trio.current_time() >= self._next_s:
            await self.commit()

    async def commit(self) -> None:
        """Commit offsets that have changed; a line on stderr if the group refuses that."""
        self._next_s = trio.current_time() + COMMIT_INTERVAL_S
        changed = {
            one: offset
            for one, offset in self._reader.done.items()
            if self._committed.get(one) != offset
        }
        try:
            await self._member.commit(changed)
        except (KafkaError, ClientError) as error:
            text = f"offsets were not committed, so records may be read again: {error}"
            print(f"kwire: {text}", file=sys.stderr)
        else:  # a failed commit is tried again with the next one
            self._committed.update(changed)

    def begin(
        self, committed: dict[TopicPartition, int], positions: dict[TopicPartition, int]
    ) -> None:
        """Begin with a new assignment: the committed offsets, and the start of reading.

        A start offset that isn't committed yet is committed, too, so that the next member misses no
        records that are written meanwhile.
        """
        self._committed = dict(committed)
        self._reader.done = dict(positions)


async def read_in_group(
    cluster: Cluster, options: argparse.Namespace, start: Start, printer: Printer
) -> int:
    """Read as a member until the end that the options ask for; returns the exit code."""
    reader = Reader(cluster, printer, read_committed=options.read_committed)
    first = Start(BEGINNING) if start.kind == BEGINNING else Start(END)
    async with open_member(
        cluster, options.group, options.topics, protocol=options.group_protocol
    ) as member:
        commits = _Commits(member, reader)
        is_finished = False
        try:
            while not is_finished:
                partitions = await member.settle()
                committed = await committed_offsets(cluster, options.group, partitions)
                led, without = partitions, dict[TopicPartition, int]()
                if not options.exit:
                    reader.leaderless.only(partitions)
                    led, without = await reader.leaderless.split(partitions)
                missing = [one for one in led if one not in committed]
                positions = committed | await start_positions(cluster, missing, first)
                commits.begin(committed, positions)
                unplaced = {one: at for one, at in without.items() if one not in committed}
                is_finished = await _read_assignment(
                    reader, member, commits, positions, late(cluster, unplaced, first), options
                )
                await commits.commit()
        except BaseException:  # also Ctrl-C
            with trio.move_on_after(LAST_COMMIT_TIMEOUT_S, shield=True):
                await commits.commit()
            raise
    return 0


async def _read_assignment(
    reader: Reader,
    member: GroupMember,
    commits: _Commits,
    positions: dict[TopicPartition, int],
    unplaced: Late,
    options: argparse.Namespace,
) -> bool:
    """Read the assigned partitions until they change; whether the command is finished."""
    if options.exit and not positions:
        text = "the group gives this member no partition: others read them all"
        print(f"kwire: {text}", file=sys.stderr)
        return True
    ends = await reader.ends(positions) if options.exit else None
    if not positions and not unplaced.partitions:
        await member.wait_moved()
        return False
    return await reader.read(
        positions,
        ends=ends,
        late=unplaced,
        after=commits.from_time_to_time,
        stop=member.wait_moved,
    )

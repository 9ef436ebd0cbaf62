"""What holds for replicas after every step: who may lead, what is replicated, what nobody loses.

The checks know the truth of each partition from its leaders: all records that were ever below a
high watermark (``Truth``). They ask no rule of the code under test:

- Whenever a high watermark moves, every running member of the ISR and of the ELR has all records
  below it, as the metadata log names them at that moment.
- A leader's maximal ISR holds the committed ISR, and the ELR too while the ISR has min ISR members:
  whoever may be elected next is one for whom the high watermark has waited.
- A leader's high watermark never falls within its epoch, and a follower's never while it has its
  log open, whoever leads. A follower's is never beyond the truth, nor beyond its log's end.
- What is below a replica's own high watermark is the truth, byte for byte.
- A new leader has the whole truth. A broker that follows the metadata late, and begins to lead in
  an epoch that is over, has the truth below its own high watermark.
- A member of the ISR cuts nothing of the truth away.
- Who joins the ISR or the ELR has the whole truth.
- Only ``may_lose`` takes something from the truth: what the next leader lacks, after a power cut of
  all or by an unclean election.
- ISR and ELR are disjoint parts of the replicas, and no fenced broker is in the ISR.
"""

import os
from collections.abc import Iterator
from typing import Any

from kwire.broker.replica.follower_partition import FollowerPartition
from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.log.partition_log import PartitionLog
from kwire.metadata.image import PartitionImage
from kwire.record.batch import complete_batches
from tests.simulation.checks import Checks

READ_BYTES = 1 << 20
MIN_ISR = 2
"""``min.insync.replicas`` of all topics here that have as many replicas."""

Key = tuple[bytes, int]
"""A partition: the topic's id and the index."""

Batch = tuple[int, bytes]
"""The offset after a batch, and its bytes."""


class Truth:
    """All that was ever below a high watermark of one partition."""

    def __init__(self) -> None:
        self.batches: dict[int, Batch] = {}
        self.end_offset = 0


class ReplicaChecks(Checks):
    """The checks of a cluster with replicas."""

    def __init__(self) -> None:
        super().__init__()
        self.truths: dict[Key, Truth] = {}
        self._watermarks: dict[tuple[Key, int], int] = {}
        self._followed: dict[tuple[Key, int], tuple[PartitionLog, int]] = {}
        self._compared: dict[tuple[bytes, int, int], tuple[PartitionLog, int]] = {}
        """What was compared last: it can't change but by a cut, and is then compared again."""
        self._were_alone: set[Key] = set()
        self._may_lose: set[Key] = set()
        self.lost: list[tuple[str, int, int]] = []
        """Topic, index, and from where on records are lost that could be lost."""

    def may_lose(self) -> None:
        """What the next leaders have is the truth, also where they lack records."""
        self._may_lose = set(self.truths)

    def patch(self, patch: Any) -> None:
        """Look at every role and every watermark from now on."""
        begun, advanced = LeaderPartition.__init__, LeaderPartition.advanced
        followed, was_cut = FollowerPartition.advance, FollowerPartition.end_cut

        def begin(led: LeaderPartition, *args: Any, **named: Any) -> None:
            begun(led, *args, **named)
            if self._runs(led.log):
                self._leads(led)

        def advance(led: LeaderPartition) -> None:
            if self._runs(led.log) and not led.is_deleted:
                self._advanced(led)
            advanced(led)

        def follow(one: FollowerPartition, *args: int) -> None:
            followed(one, *args)
            if self._runs(one.log):
                self._follows(one)

        def cut(one: FollowerPartition) -> None:
            was_cut(one)
            if self._runs(one.log):
                self._was_cut(one)

        patch.setattr(LeaderPartition, "__init__", begin)
        patch.setattr(LeaderPartition, "advanced", advance)
        patch.setattr(FollowerPartition, "advance", follow)
        patch.setattr(FollowerPartition, "end_cut", cut)

    # What is looked at

    def _node_of(self, log: PartitionLog) -> int:
        return int(str(log.directory).rsplit("/", 3)[1].removeprefix("broker-"))

    def _runs(self, log: PartitionLog) -> bool:
        """Whether the log belongs to a process that lives."""
        return self.nodes[self._node_of(log)].disk is log.disk

    def _row(self, key: Key) -> PartitionImage | None:
        topic = self.image.topics_by_id.get(key[0])
        return None if topic is None else topic.partitions[key[1]]

    def _log_of(self, node_id: int, key: Key) -> PartitionLog | None:
        """The log of a replica on a broker that runs and is registered."""
        broker = self.nodes[node_id].broker
        topic = self.image.topics_by_id.get(key[0])
        if broker is None or topic is None:
            return None
        found = broker.log_manager.logs.get((topic.name, key[1]))
        return None if found is None or found.is_offline else found

    # The steps

    def _leads(self, led: LeaderPartition) -> None:
        key, where = (led.topic_id, led.index), _name(led)
        truth, row = self.truths.setdefault(key, Truth()), self._row(key)
        if row is not None and row.leader_epoch > led.leader_epoch:
            self._led_once(led, truth, where)
            return
        if key in self._were_alone:  # what an only replica has is the truth
            self._were_alone.remove(key)
            self._advanced(led)
        end_offset = led.log.log_end_offset
        if key in self._may_lose:
            self._may_lose.remove(key)
            if end_offset < truth.end_offset:
                self.lost.append((led.topic, led.index, end_offset))
                truth.end_offset = end_offset
        self._check(
            end_offset >= truth.end_offset,
            f"{where} leads with {end_offset} of {truth.end_offset} replicated records",
        )
        self._check(
            led.high_watermark <= truth.end_offset,
            f"{where} takes {led.high_watermark} for replicated, that is {truth.end_offset}",
        )
        self._compare(led.log, truth, 0, truth.end_offset, where)

    def _led_once(self, led: LeaderPartition, truth: Truth, where: str) -> None:
        """Compare what a leader shows whose image is old: it may lack what the next one has."""
        if (led.topic_id, led.index) not in self._may_lose:
            reached = led.high_watermark
            self._check(reached <= truth.end_offset, f"{where} takes {reached} for replicated")
            self._compare(led.log, truth, 0, reached, where)

    def _advanced(self, led: LeaderPartition) -> None:
        key, where, reached = (led.topic_id, led.index), _name(led), led.high_watermark
        before = self._watermarks.get((key, led.leader_epoch), 0)
        self._check(reached >= before, f"the watermark of {where} falls from {before} to {reached}")
        self._watermarks[key, led.leader_epoch] = reached
        row = self._row(key)
        if row is not None:
            self._members_reach(key, row, reached, where)
        truth = self.truths.setdefault(key, Truth())
        for base, batch in _batches(led.log, truth.end_offset, reached):
            truth.batches[base] = batch
        truth.end_offset = max(truth.end_offset, reached)

    def _members_reach(self, key: Key, row: PartitionImage, offset: int, where: str) -> None:
        for node_id in {*row.isr, *row.elr}:
            log = self._log_of(node_id, key)
            reached = offset if log is None else log.log_end_offset
            if reached < offset:
                self._fail(
                    f"{where} is replicated to {offset}, but {node_id} of {row} has {reached}"
                )

    def _follows(self, one: FollowerPartition) -> None:
        where, reached = _name(one), one.high_watermark
        self._follows_on(one)
        truth = self.truths.setdefault((one.topic_id, one.index), Truth())
        self._check(
            reached <= truth.end_offset,
            f"{where} follows to {reached}, but replicated is {truth.end_offset}",
        )
        key = one.topic_id, one.index, self._node_of(one.log)
        if self._compared.get(key) != (one.log, reached):
            self._compare(one.log, truth, max(0, reached - 1), reached, where)
            self._compared[key] = one.log, reached

    def _follows_on(self, one: FollowerPartition) -> None:
        """Compare a follower's watermark with its log, and with the one before of the same log."""
        key, reached = ((one.topic_id, one.index), self._node_of(one.log)), one.high_watermark
        end_offset = one.log.log_end_offset
        self._check(
            reached <= end_offset,
            f"{_name(one)} on {key[1]} follows to {reached}, but its log ends at {end_offset}",
        )
        log, before = self._followed.get(key, (one.log, 0))
        if log is one.log and key[0] not in self._may_lose:
            self._check(
                reached >= before, f"{_name(one)} on {key[1]} follows to {reached}, after {before}"
            )
        self._followed[key] = one.log, reached

    def _was_cut(self, one: FollowerPartition) -> None:
        self._follows_on(one)
        key = one.topic_id, one.index
        self._compared.pop((*key, self._node_of(one.log)), None)
        row, truth = self._row(key), self.truths.setdefault(key, Truth())
        node_id, end_offset = self._node_of(one.log), one.log.log_end_offset
        if row is not None and node_id in row.isr and node_id != row.leader:
            self._check(
                end_offset >= truth.end_offset,
                f"{_name(one)} on {node_id} cuts at {end_offset}, replicated is {truth.end_offset}",
            )

    def _compare(
        self, log: PartitionLog, truth: Truth, start: int, end_offset: int, where: str
    ) -> None:
        """Compare what a replica has with the truth."""
        for base, batch in _batches(log, max(start, log.log_start_offset), end_offset):
            known = truth.batches.get(base)
            if known != batch:
                node_id = self._node_of(log)
                self._fail(f"{where} on {node_id} has another batch at {base}: {known}, {batch}")

    def acknowledged(self, topic: str, index: int, offset: int) -> None:
        """A producer was told that its record is at an offset, and that all replicas have it."""
        found = self.image.topics_by_name.get(topic)
        if found is not None:
            truth = self.truths.get((found.topic_id, index), Truth())
            self._check(
                offset < truth.end_offset,
                f"{topic}-{index} acknowledges {offset}, replicated is {truth.end_offset}",
            )

    def _check_row(
        self, key: Key, was: PartitionImage | None, row: PartitionImage, where: str
    ) -> None:
        if was is not None and len(was.replicas) == 1:
            self._were_alone.add(key)
        members = {*row.isr, *row.elr}
        self._check(members <= set(row.replicas), f"ISR and ELR beyond replicas: {where}")
        self._check(not set(row.isr) & set(row.elr), f"ISR and ELR overlap: {where}")
        self._check(row.leader < 0 or row.leader in row.isr, f"leads out of sync: {where}")
        known = set() if was is None else {*was.isr, *was.elr}
        truth = self.truths.get(key, Truth())
        if row.is_recovering and key in self._may_lose:
            known.add(row.leader)  # nobody is left to choose from: what it has becomes the truth
        for node_id in members - known:
            log = self._log_of(node_id, key)
            reached = truth.end_offset if log is None else log.log_end_offset
            self._check(
                reached >= truth.end_offset,
                f"{node_id} joins {where} with {reached} of {truth.end_offset} records",
            )

        self._check_maximal(key, row, where)

    def _check_maximal(self, key: Key, row: PartitionImage, where: str) -> None:
        """Compare a row that is being committed with what its leader counts on."""
        broker = self.nodes[row.leader].broker if row.leader > 0 else None
        topic = self.image.topics_by_id.get(key[0])
        led = None if broker is None or topic is None else broker.replica(topic.name, key[1])
        if not isinstance(led, LeaderPartition) or led.leader_epoch != row.leader_epoch:
            return
        enough = len(row.isr) >= min(MIN_ISR, len(row.replicas))
        counted = {*row.isr, *(row.elr if enough else ())}
        maximal = {*led.in_sync, *led.proposed}
        self._check(
            counted <= maximal, f"the leader counts on {sorted(maximal)} as maximal ISR of {where}"
        )

    def all_equal(self) -> bool:
        """Whether all replicas of all partitions are the same, with the same watermark."""
        for key, truth in self.truths.items():
            row = self._row(key)
            for node_id in row.replicas if row else ():
                log = self._log_of(node_id, key)
                if log is None or log.log_end_offset != truth.end_offset:
                    return False
        return True

    def check_equal(self) -> None:
        """Compare all replicas with the truth, byte for byte."""
        for key, truth in self.truths.items():
            row = self._row(key)
            for node_id in row.replicas if row else ():
                log = self._log_of(node_id, key)
                assert log is not None
                self._compare(log, truth, 0, truth.end_offset, log.name)


def _name(one: LeaderPartition | FollowerPartition) -> str:
    return f"{one.topic}-{one.index} in epoch {one.leader_epoch}"


def _batches(log: PartitionLog, start: int, end_offset: int) -> Iterator[tuple[int, Batch]]:
    """The batches of a log from one that holds ``start`` to one that ends at ``end_offset``."""
    while start < end_offset:
        part = log.read(start, READ_BYTES, end_offset=end_offset, min_one_batch=True)
        if part is None:
            return
        for batch in complete_batches(os.pread(part.fd, part.size_bytes, part.position)):
            start = batch.next_offset
            yield batch.base_offset, (start, bytes(batch.data))

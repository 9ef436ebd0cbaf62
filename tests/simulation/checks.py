"""What holds in a cluster after every step: the checks of the simulation.

- Each commit is made under the writer's own session, and what only a controller may change under
  the controller's hold, as the keys are at that moment. The guards of the real code aren't asked.
- A revision has one content, for ever, and all brokers have the same image at a revision.
- A partition has one leader in a leader epoch. Neither of its epochs falls, and each change has a
  partition epoch of its own.
- A broker whose registration is fenced is nobody's leader.
- A group or transactional id has one coordinator at a time, in each leader epoch.
"""

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NoReturn

import trio

from kwire.broker.broker import Broker
from kwire.broker.replica.replica_manager import LogJob
from kwire.metadata.changes import BrokerChanged, Change, ControllerElected, apply
from kwire.metadata.etcd.encoding import decode_commit
from kwire.metadata.etcd.transactions import Json
from kwire.metadata.image import MetadataImage, PartitionImage, TopicImage
from kwire.testing.simulated_etcd import SimulatedEtcd

PREFIX = "kwire/"
LOG = f"{PREFIX}log/"


class Checks:
    """The checks of one run; ``image`` is what the log says."""

    nodes: Mapping[int, Any]

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.images: dict[int, MetadataImage] = {}
        self.deleted: set[bytes] = set()
        self._leaders: dict[tuple[bytes, int, int], int] = {}
        self.failure: BaseException | None = None
        self._failed = trio.Event()

    async def run(self) -> None:
        """Fail when a check has failed in code that may have handled the error."""
        await self._failed.wait()
        assert self.failure is not None
        raise self.failure

    def _check(self, is_so: object, what: str) -> None:
        if not is_so:
            self._fail(what)

    def _fail(self, what: str) -> NoReturn:
        error = AssertionError(what)
        if self.failure is None:
            self.failure = error
            self._failed.set()
        raise error

    # The log

    def committed(self, etcd: SimulatedEtcd, key: str, value: bytes) -> None:
        """A transaction has put a commit."""
        revision = int(key.removeprefix(LOG), 16)
        self._check(revision == self.image.revision + 1, f"revision {revision} isn't the next")
        written = decode_commit(value)
        node_id, incarnation, _ = written.by.rsplit(":", 2)
        image = apply(self.image, written.changes, revision)
        if self.image.brokers:
            self._check_writer(etcd, int(node_id), incarnation, written.changes)
        self._check_image(self.image, image)
        self.image = self.images[revision] = image

    def _check_writer(
        self, etcd: SimulatedEtcd, node_id: int, incarnation: str, changes: Sequence[Change]
    ) -> None:
        session = etcd.item(f"{PREFIX}live/{node_id}")
        lives = session is not None and json.loads(session.value)[0] == incarnation
        self._check(lives, f"broker {node_id} commits without a session: {changes}")
        for change in changes:
            fences = isinstance(change, BrokerChanged) and change.is_fenced
            if (fences and change.node_id != node_id) or isinstance(change, ControllerElected):
                hold = etcd.item(f"{PREFIX}controller")
                holds = hold is not None and json.loads(hold.value)[0] == node_id
                self._check(holds, f"broker {node_id} isn't the controller: {change}")

    def _check_image(self, before: MetadataImage, after: MetadataImage) -> None:
        self._check(after.next_producer_id >= before.next_producer_id, "producer ids fall")
        self.deleted |= set(before.topics_by_id) - set(after.topics_by_id)
        self._check(not self.deleted & set(after.topics_by_id), "a topic id is used again")
        for topic in after.topics_by_id.values():
            old = before.topics_by_id.get(topic.topic_id)
            known = () if old is None else old.partitions
            for index, row in enumerate(topic.partitions):
                was = known[index] if index < len(known) else None
                if was is not row or before.brokers is not after.brokers:
                    self._check_partition(after, topic, index, was)

    def _check_partition(
        self, after: MetadataImage, topic: TopicImage, index: int, was: PartitionImage | None
    ) -> None:
        row = topic.partitions[index]
        where = f"{topic.name}-{index} {row}"
        key = topic.topic_id, index, row.leader_epoch
        led = self._leaders.setdefault(key, row.leader)
        self._check(led == row.leader, f"two leaders, {led} was one: {where}")
        active = row.leader < 0 or after.is_active(row.leader)
        self._check(active, f"a fenced broker leads {where}")
        self._check(set(row.isr) <= set(row.replicas), f"ISR beyond replicas {where}")
        if len(row.replicas) > 1:
            active = all(after.brokers[one].is_active for one in row.isr)
            self._check(active or row.leader < 0, f"a fenced broker is in sync {where}")
            self._check_row((topic.topic_id, index), was, row, where)
        if was is not None:
            falls = row.leader_epoch < was.leader_epoch or row.partition_epoch < was.partition_epoch
            self._check(not falls, f"epochs fall from {was}: {where}")
            grows = row == was or row.partition_epoch > was.partition_epoch
            self._check(grows, f"changes in the same partition epoch from {was}: {where}")

    def _check_row(
        self, key: tuple[bytes, int], was: PartitionImage | None, row: PartitionImage, where: str
    ) -> None:
        """Look at a partition with several replicas, and at what it was before."""

    # The brokers

    def follow(self, broker: Broker) -> None:
        """Look at every image that a broker takes from now on."""
        take = broker.new_images.apply_image
        self._same(broker.node_id, broker.image)

        async def checked(image: MetadataImage, changes: Sequence[Change]) -> LogJob | None:
            before = broker.image.revision
            self._check(image.revision > before, f"broker {broker.node_id} goes back")
            self._same(broker.node_id, image)
            job = await take(image, changes)
            self.coordinators()
            return job

        broker.new_images.apply_image = checked  # type: ignore[method-assign]

    def _same(self, node_id: int, image: MetadataImage) -> None:
        known = self.images.get(image.revision)
        self._check(image == known, f"broker {node_id} has another image of {image.revision}")

    def coordinators(self) -> None:
        """Each partition of a coordinators' topic is at home on one broker at the most."""
        homes: dict[tuple[str, int, int], int] = {}
        for node in self.nodes.values():
            for coordinators in node.broker.coordinators if node.broker else ():
                for loaded in coordinators.loaded():
                    if not coordinators.lookup.is_here(loaded.partition):
                        continue
                    led = loaded.partition
                    key = led.topic, led.index, led.leader_epoch
                    other = homes.setdefault(key, node.node_id)
                    self._check(other == node.node_id, f"{key} is at home twice")
        for node in self.nodes.values():
            if node.broker is not None and node.broker.bugs:
                self._check(False, f"broker {node.node_id} has a bug: {node.broker.bugs[0]!r}")


class WatchedEtcd(SimulatedEtcd):
    """An etcd that shows each commit to the checks, at the moment at which it is made."""

    def __init__(self, random: Random, checks: Checks) -> None:
        super().__init__(random)
        self._checks = checks

    def do(self, path: str, body: Json) -> Json:
        """The answer to a call."""
        answer = super().do(path, body)
        if path == "kv/txn" and answer.get("succeeded"):
            for operation in body["success"]:
                put = operation.get("request_put")
                key = b64decode(put["key"]).decode() if put else ""
                if key.startswith(LOG):
                    self._checks.committed(self, key, b64decode(put["value"]))
        return answer

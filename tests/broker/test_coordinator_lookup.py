"""The internal topics of the coordinators: what is said if they can't be created."""

from collections.abc import Sequence
from random import Random

import pytest

from kwire.broker.coordinator_lookup import CoordinatorLookup
from kwire.broker.proposals import NOBODY, Asker, Decide
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import BrokerRegistered, Change, apply
from kwire.metadata.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, BrokerImage, MetadataImage


class Cluster:
    """A broker of a cluster on etcd, whose internal topics have three replicas."""

    def __init__(self, brokers: int) -> None:
        self.random = Random(1)
        self.image = MetadataImage()
        for node_id in range(1, brokers + 1):
            self.add_broker(node_id)

    def add_broker(self, node_id: int, *, is_fenced: bool = False) -> None:
        """Register another broker, or the same one anew."""
        broker = BrokerImage(node_id, None, (), "a", is_fenced=is_fenced)
        self._apply([BrokerRegistered(broker)])

    def _apply(self, changes: Sequence[Change]) -> None:
        self.image = apply(self.image, changes, self.image.revision + 1)

    def setting(self, name: str) -> str:
        """The metadata are in a store."""
        assert name == "kwire.metadata.store"
        return "etcd://etcd-1:2379/kwire"

    def integer(self, name: str) -> int:
        """Kafka's defaults, with few partitions and one worker."""
        if name.endswith("segment.bytes"):
            return 1 << 20
        return {"kwire.workers": 1, "transaction.state.log.min.isr": 2}.get(name, 3)

    async def commit(self, decide: Decide, asker: Asker = NOBODY) -> None:
        """Commit at once."""
        self._apply(await decide(self.image))


@pytest.mark.parametrize(
    ("topic", "setting", "what"),
    [
        (OFFSETS_TOPIC, "offsets.topic.replication.factor", "groups"),
        (TRANSACTIONS_TOPIC, "transaction.state.log.replication.factor", "transactions"),
    ],
)
async def test_too_few_brokers_are_a_warning_for_each_number_of_brokers(
    topic: str, setting: str, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients ask again and again, and don't tell why; the log says it once, with the remedy."""
    broker = Cluster(1)
    lookup = CoordinatorLookup(broker, topic)
    for brokers in (1, 2):
        for _ in range(3):
            with pytest.raises(KafkaError, match=f"cannot create {topic}") as raised:
                await lookup.ensure_topic()
            assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        line = caplog.messages[-1]
        assert f"{setting} is 3, and the cluster has {brokers} broker(s)" in line
        assert f"no broker serves {what}: start more brokers, or set {setting}={brokers}" in line
        broker.add_broker(brokers + 1)
    await lookup.ensure_topic()
    assert lookup.topic_exists
    assert len(caplog.messages) == 2


async def test_any_other_reason_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    """Enough brokers are registered, but none of them serves."""
    broker = Cluster(0)
    lookup = CoordinatorLookup(broker, OFFSETS_TOPIC)
    for node_id in (1, 2, 3):
        broker.add_broker(node_id, is_fenced=True)
    for _ in range(2):
        with pytest.raises(KafkaError, match="All brokers are currently fenced"):
            await lookup.ensure_topic()
    [line] = caplog.messages
    assert line.startswith(f"cannot create {OFFSETS_TOPIC}: Unable to replicate the partition 3")
    assert line.endswith("or have all their log directories cordoned.")

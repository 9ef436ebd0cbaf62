"""A leader judges a smaller ISR by the settings that came with it."""

from kwire.metadata.changes import (
    BrokerRegistered,
    ConfigChanged,
    PartitionsChanged,
    TopicCreated,
)
from kwire.metadata.image import (
    BrokerImage,
    ConfigResourceType,
    PartitionImage,
    TopicImage,
)
from kwire.record.records import BatchBuilder
from tests.support.in_process import running_server

NOW_MS = 1_800_000_000_000
ROW = PartitionImage(1, 0, (1, 2), (1, 2))


async def test_nothing_is_committed_below_a_new_minimum(tmp_path):
    """Otherwise the replica that left the ISR would be eligible, and lack what is committed."""
    async with running_server(tmp_path) as server:
        broker = server.broker
        other = BrokerImage(2, None, (("PLAINTEXT", "127.0.0.1", 1),), "x", epoch=1)
        topic = TopicImage("t", bytes(15) + b"t", (ROW,), 1)
        made = [BrokerRegistered(other), TopicCreated(topic)]
        await broker.commit(lambda image: made)
        partition = broker.partition("t", 0)
        batch = BatchBuilder()
        batch.add(NOW_MS, None, b"only here")
        partition.append(batch.build(), now_ms=NOW_MS, required_acks=1)
        assert partition.high_watermark == 0
        shrunk = ROW._replace(isr=(1,), elr=(2,), partition_epoch=1)
        changes = [
            PartitionsChanged(topic.topic_id, ((0, shrunk),)),
            ConfigChanged(ConfigResourceType.TOPIC, "t", "min.insync.replicas", "2"),
        ]
        await broker.commit(lambda image: changes)
        assert broker.partition("t", 0) is partition
        assert partition.high_watermark == 0
        fewer = ConfigChanged(ConfigResourceType.TOPIC, "t", "min.insync.replicas", "1")
        cleared = shrunk._replace(elr=(), partition_epoch=2)
        lower = [fewer, PartitionsChanged(topic.topic_id, ((0, cleared),))]
        await broker.commit(lambda image: lower)
        assert partition.high_watermark == 1

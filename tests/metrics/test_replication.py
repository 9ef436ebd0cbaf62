"""The metrics of replication, by which operators see that records have fewer copies than asked."""

from pathlib import Path

from kwire.budget.slices import Slices
from kwire.metrics.samples import Samples
from kwire.metrics.topics import gather_topics
from tests.handlers.followers import Leader, leading

PREFIX = "kafka_server_replicamanager_"


async def replication(leader: Leader) -> dict[str, float]:
    """The samples about replicas, by the rest of their names."""
    samples = Samples()
    await gather_topics(leader.broker, Slices(), samples)
    return {
        one.name.removeprefix(PREFIX): one.value for one in samples if one.name.startswith(PREFIX)
    }


async def test_replicas_out_of_sync_are_counted(tmp_path: Path) -> None:
    """Each partition where it belongs, as in Kafka."""
    async with leading(tmp_path, partitions=3) as leader:
        await leader.change(1, isr=(1, 2))
        await leader.change(2, isr=(1,))
        counted = await replication(leader)
        assert counted["partitioncount"] == counted["leadercount"] == 3
        assert counted["underreplicatedpartitions"] == 2
        assert counted["underminisrpartitioncount"] == 1
        assert counted["atminisrpartitioncount"] == 1
        assert counted["isrshrinks_total"] == counted["isrexpands_total"] == 0
        assert counted["failedisrupdates_total"] == 0

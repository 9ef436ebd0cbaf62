"""read_committed consumers never see the end of a transaction that another leader may not have."""

from pathlib import Path

import pytest

from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.log.disk import Disk
from kwire.log.truncation import truncate_log
from kwire.log.validation import AppendOrigin
from kwire.record.control import ControlType, end_transaction_marker
from kwire.record.records import BatchBuilder, ProducerState
from tests.broker.leading import NOW_MS, append, follow, leader


def write(partition: LeaderPartition, producer_id: int) -> None:
    """One record of a transaction."""
    builder = BatchBuilder()
    builder.add(NOW_MS, None, b"value")
    batch = builder.build(producer=ProducerState(producer_id, 0, 0), transactional=True)
    partition.append(batch, now_ms=NOW_MS)


def end(partition: LeaderPartition, producer_id: int) -> None:
    """The marker of a commit."""
    marker = end_transaction_marker(
        ControlType.COMMIT,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=NOW_MS,
    )
    partition.append(marker, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)


def follow_all(partition: LeaderPartition, end_offset: int = -1) -> None:
    """Both followers fetch from an offset on."""
    for node in (2, 3):
        follow(partition, node, end_offset)


def test_a_marker_counts_when_it_is_replicated(tmp_path: Path) -> None:
    """Until then the stable offset stays at the first record, wherever the high watermark is."""
    partition, _ = leader(tmp_path)
    append(partition)
    write(partition, 7)
    follow_all(partition)
    end(partition, 7)
    append(partition)
    assert (partition.high_watermark, partition.last_stable_offset) == (2, 1)
    follow_all(partition, 2)
    assert partition.last_stable_offset == 1
    follow_all(partition, 3)
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)


def test_the_oldest_of_several_counts(tmp_path: Path) -> None:
    """Ends come in another order than beginnings; open transactions count as ever."""
    partition, _ = leader(tmp_path)
    for producer_id in (7, 8, 9):
        write(partition, producer_id)
    end(partition, 8)
    follow_all(partition)
    assert partition.last_stable_offset == 0
    end(partition, 7)
    follow_all(partition, 4)
    assert partition.last_stable_offset == 0
    follow_all(partition)
    assert partition.last_stable_offset == 2


def test_a_marker_that_is_cut_ends_nothing(tmp_path: Path) -> None:
    """Its transaction is open again, and isn't counted twice."""
    partition, _ = leader(tmp_path)
    write(partition, 7)
    end(partition, 7)
    log = partition.log
    truncate_log(log, 1, NOW_MS, Disk(), 0)
    assert list(log.producers.open_transactions) == [7]
    assert not log.producers.ended


def test_an_old_role_writes_nothing(tmp_path: Path) -> None:
    """A handler that has waited may still hold it; its log belongs to the next role."""
    partition, _ = leader(tmp_path)
    partition.delete()
    with pytest.raises(KafkaError) as raised:
        append(partition)
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.append_own is not None
    assert partition.log.log_end_offset == 0

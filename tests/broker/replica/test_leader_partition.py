"""What a leader promises: nothing below the high watermark is only in some of the maximal ISR."""

from pathlib import Path

import pytest

from kwire.broker.partition import UNACKED
from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.log.log_config import LogConfig
from kwire.record.batch import RecordBatch
from tests.broker.leading import NOW_MS, ROW, NotedProduce, append, batch, follow, leader


def let_lag_time_pass(partition: LeaderPartition) -> None:
    """Look before, in the middle, and after."""
    for _ in range(3):
        partition.find_lagging_followers()


def test_the_high_watermark_is_what_all_in_sync_have(tmp_path: Path) -> None:
    """One slow follower of the ISR holds it back, and it never falls."""
    partition, _ = leader(tmp_path)
    append(partition, 5)
    assert partition.high_watermark == 0
    follow(partition, 2)
    assert partition.high_watermark == 0
    follow(partition, 3, 2)
    assert partition.high_watermark == 2
    follow(partition, 3, 1)
    assert partition.high_watermark == 2
    follow(partition, 3)
    assert partition.high_watermark == 5


@pytest.mark.parametrize("way", ["append", "append_plain", "append_own"])
def test_no_append_moves_it_alone(tmp_path: Path, way: str) -> None:
    """Each way to append leaves the high watermark to the followers."""
    partition, _ = leader(tmp_path)
    append(partition)
    if way == "append":
        append(partition)
    elif way == "append_plain":
        assert partition.append_plain(RecordBatch(batch()), -1) == UNACKED - 1
    else:
        assert partition.append_own(batch(), NOW_MS) == 1
    assert (partition.log.log_end_offset, partition.high_watermark) == (2, 0)


def test_a_leader_that_is_alone_in_sync_moves_it_itself(tmp_path: Path) -> None:
    """With min.insync.replicas=1, nobody else has to have the records."""
    partition, _ = leader(tmp_path, ROW._replace(isr=(1,)))
    assert append(partition, 3) == partition.high_watermark == 3


def test_it_stands_still_under_min_isr(tmp_path: Path) -> None:
    """KIP-966: what is acknowledged then could be lost with one replica."""
    partition, _ = leader(tmp_path, ROW._replace(isr=(1,)), min_insync_replicas=2)
    with pytest.raises(KafkaError) as refused:
        append(partition)
    assert refused.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.append_plain(RecordBatch(batch()), -1) == -1
    append(partition, acks=1)
    assert partition.high_watermark == 0
    partition.configure(LogConfig(min_insync_replicas=1))
    assert partition.high_watermark == 1


def test_min_isr_is_at_most_the_number_of_replicas(tmp_path: Path) -> None:
    """Kafka's effective min ISR; otherwise a topic with fewer replicas could never be written."""
    row = ROW._replace(replicas=(1, 2), isr=(1, 2))
    partition, _ = leader(tmp_path, row, min_insync_replicas=3)
    append(partition)
    follow(partition, 2)
    assert partition.high_watermark == 1


def test_what_has_to_be_flushed_counts_when_it_is(tmp_path: Path) -> None:
    """flush.messages: a follower that is quicker than the disk doesn't acknowledge for it."""
    partition, _ = leader(tmp_path, flush_messages=1)
    append(partition)
    follow(partition, 2)
    follow(partition, 3)
    assert partition.high_watermark == 0
    partition.log.flush(0)
    partition.flushed()
    assert partition.high_watermark == 1


def test_a_follower_that_caught_up_is_waited_for_until_it_joins(tmp_path: Path) -> None:
    """It asks at once to join; the leader doesn't run away from it meanwhile."""
    partition, brokers = leader(tmp_path, ROW._replace(isr=(1, 2)))
    follow(partition, 3)
    assert brokers.asked
    assert partition.propose(1) == (1, 2, 3)
    append(partition)
    follow(partition, 2)
    assert partition.high_watermark == 0
    partition.withdraw(2)
    assert partition.maximal_isr == (1, 2)
    assert partition.high_watermark == 0, "it caught up just now"
    let_lag_time_pass(partition)
    assert partition.high_watermark == 1, "it lags by now"


@pytest.mark.parametrize("why", ["fenced", "restarted"])
def test_who_may_not_join_holds_nothing_back(tmp_path: Path, why: str) -> None:
    """KIP-903: neither a fenced broker nor one whose registration is newer than its fetch."""
    partition, brokers = leader(tmp_path, ROW._replace(isr=(1, 2)))
    if why == "fenced":
        brokers.inactive.add(3)
    follow(partition, 3, epoch=7 if why == "fenced" else 6)
    append(partition)
    follow(partition, 2)
    assert partition.high_watermark == 1
    assert partition.propose(1) is None
    brokers.inactive.clear()
    follow(partition, 3)
    partition.look_at_brokers()
    assert partition.propose(1) == (1, 2, 3)


def test_a_fetch_from_before_a_restart_is_refused(tmp_path: Path) -> None:
    """It may tell of records that the follower has lost since."""
    partition, _ = leader(tmp_path)
    follow(partition, 2, 0, epoch=7)
    append(partition)
    with pytest.raises(KafkaError) as refused:
        follow(partition, 2, 1, epoch=6)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.followers[2].end_offset == 0


def test_nobody_joins_before_the_start_of_the_epoch(tmp_path: Path) -> None:
    """The high watermark of a new leader may be older than that of the leader before."""
    partition, _ = leader(tmp_path, ROW._replace(isr=(1, 2)), records=5)
    assert (partition.high_watermark, partition.epoch_start) == (0, 5)
    follow(partition, 3, 4)
    assert partition.propose(1) is None
    follow(partition, 3, 5)
    assert partition.propose(1) == (1, 2, 3)
    follow(partition, 2, 5)
    assert (partition.high_watermark, partition.epoch_start) == (5, 5)


def test_under_min_isr_only_who_caught_up_joins(tmp_path: Path) -> None:
    """KAFKA-19996: the high watermark stands still, so that to have reached it says nothing."""
    partition, _ = leader(tmp_path, ROW._replace(isr=(1,)), min_insync_replicas=2)
    append(partition, 5, acks=1)
    follow(partition, 3, 4)
    assert partition.propose(1) is None
    follow(partition, 3, 5)
    assert partition.propose(1) == (1, 3)


def test_who_lags_falls_out(tmp_path: Path) -> None:
    """A follower that hasn't reached the end of a whole lag time before; nobody sooner."""
    partition, brokers = leader(tmp_path)
    append(partition, 4)
    follow(partition, 2)
    follow(partition, 3, 2)
    partition.find_lagging_followers()
    append(partition, 4)
    partition.find_lagging_followers()
    assert not brokers.asked
    follow(partition, 2, 4)
    partition.find_lagging_followers()
    assert brokers.asked == [partition]
    assert partition.propose(1) == (1, 2)
    assert partition.maximal_isr == (1, 2, 3), "the log still names it"
    assert partition.high_watermark == 2
    partition.update(ROW._replace(isr=(1, 2), partition_epoch=1))
    assert partition.high_watermark == 4
    assert partition.is_under_replicated


def test_a_follower_that_is_idle_does_not_lag(tmp_path: Path) -> None:
    """It has everything, and nobody appends."""
    partition, brokers = leader(tmp_path)
    append(partition)
    follow(partition, 2)
    follow(partition, 3)
    for _ in range(5):
        partition.find_lagging_followers()
    assert not brokers.asked


def test_a_proposal_of_unknown_outcome_counts(tmp_path: Path) -> None:
    """The log may still take it; then a leader may come from those that it names."""
    partition, _ = leader(tmp_path, ROW._replace(isr=(1, 2)))
    follow(partition, 3)
    assert partition.propose(5) == (1, 2, 3)
    append(partition)
    follow(partition, 2)
    let_lag_time_pass(partition)
    assert partition.propose(5) is None, "the follower lags"
    assert partition.maximal_isr == (1, 2, 3)
    partition.withdraw(5)
    assert partition.high_watermark == 0
    partition.withdraw(6)
    assert partition.high_watermark == 1


def test_an_older_row_changes_nothing(tmp_path: Path) -> None:
    """The leader's own proposals may be known before the whole image is."""
    partition, _ = leader(tmp_path)
    partition.update(ROW._replace(isr=(1, 2), partition_epoch=2))
    partition.update(ROW._replace(isr=(1, 3), partition_epoch=1))
    assert partition.in_sync == (1, 2)


def test_replicas_come_and_go(tmp_path: Path) -> None:
    """A reassignment: what is known of those that stay is kept, the others are strangers."""
    partition, _ = leader(tmp_path)
    append(partition)
    follow(partition, 2)
    row = ROW._replace(replicas=(1, 2, 4), isr=(1, 2), partition_epoch=1, adding=(4,))
    partition.update(row)
    assert partition.high_watermark == 1
    assert not partition.is_under_replicated
    for names_epoch, code in (
        (True, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ):
        with pytest.raises(KafkaError) as refused:
            partition.follower(3, names_epoch=names_epoch)
        assert refused.value.code == code
    follow(partition, 4)
    assert partition.propose(1) == (1, 2, 4)


def test_a_leader_of_an_unclean_election_recovers_at_once(tmp_path: Path) -> None:
    """It commits its ISR although that stays the same."""
    partition, _ = leader(tmp_path, ROW._replace(isr=(1,), is_recovering=True))
    assert partition.propose(1) == (1,)


def test_requests_are_told_when_their_records_are_everywhere(tmp_path: Path) -> None:
    """In order, each once; and when the leadership goes, that nobody knows."""
    partition, _ = leader(tmp_path)
    acks = NotedProduce()
    for slot in range(4):
        partition.wait_for(append(partition), acks, slot)
    follow(partition, 2)
    follow(partition, 3, 2)
    assert acks.told == [(0, None), (1, None)]
    partition.wait_for(1, acks, 9)
    partition.delete()
    partition.wait_for(4, acks, 8)
    gone = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert acks.told[2:] == [(9, None), (2, gone), (3, gone), (8, gone)]


def test_low_watermark(tmp_path: Path) -> None:
    """The smallest log start offset of the brokers that are there."""
    partition, brokers = leader(tmp_path)
    append(partition, 5)
    for node in (2, 3):
        partition.followed(partition.follower(node, names_epoch=True), 5, node, 7)
    assert partition.delete_records(-1) == 5
    assert partition.low_watermark == 2
    brokers.inactive.add(2)
    assert partition.low_watermark == 3

"""S20: a transaction that ends while its coordinator is asked takes the permission back."""

from pathlib import Path

import pytest

from kwire.broker.markers import EndMarker, write_marker
from kwire.broker.remote_verification import Question, is_verified
from kwire.broker.topics import create_missing
from kwire.broker.verification import Support
from kwire.coordinator.transaction.state import ProducerIdAndEpoch
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kwire.testing.in_process import running_server

PRODUCER = ProducerIdAndEpoch(7, 3)
ABORT = EndMarker(7, 3, 0, committed=False, transaction_version=0)


class Coordinator:
    """A coordinator on another broker; ``meanwhile`` happens before it answers."""

    def __init__(self, code: int = 0, meanwhile=lambda: None) -> None:
        self._code = code
        self._meanwhile = meanwhile

    async def ask(self, node_id, request, response, **options):
        self._meanwhile()
        row = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=self._code)
        topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[row])
        result = AddPartitionsToTxnResult(transactional_id="tx", topic_results=[topic])
        return AddPartitionsToTxnResponse(results_by_transaction=[result])


@pytest.fixture
async def broker(tmp_path: Path, monkeypatch):
    async with running_server(tmp_path, {"num.partitions": "1"}) as server:
        await create_missing(server.broker, ["t"])
        monkeypatch.setattr(server.broker.transactions.homes, "leader_for", lambda _: 2)
        yield server.broker


def _question(broker, support=Support.ADDS) -> Question:
    adds, knows = support is Support.ADDS, support >= Support.ABORTABLE
    return Question(broker, "tx", PRODUCER, [("t", 0)], adds=adds, knows_abortable=knows)


async def test_a_write_may_happen_once_the_coordinator_has_agreed(broker):
    """For this producer's epoch only, and until its transaction ends."""
    broker.peers = Coordinator()
    question = _question(broker)
    assert not is_verified(broker, PRODUCER, "t", 0)
    await question.wait()
    assert is_verified(broker, PRODUCER, "t", 0)
    assert not is_verified(broker, PRODUCER._replace(epoch=4), "t", 0)
    write_marker(broker, ABORT, "t", 0)
    assert not is_verified(broker, PRODUCER, "t", 0)


async def test_questions_at_the_same_time_share_an_answer(broker):
    """Two requests for one partition: neither takes the other's permission away for ever."""
    broker.peers = Coordinator()
    first, second = _question(broker), _question(broker)
    await first.wait()
    assert is_verified(broker, PRODUCER, "t", 0)
    await second.wait()
    assert is_verified(broker, PRODUCER, "t", 0)


async def test_a_marker_before_the_answer_takes_it_back(broker):
    """No marker would ever end what were written then."""
    broker.peers = Coordinator(meanwhile=lambda: write_marker(broker, ABORT, "t", 0))
    await _question(broker).wait()
    assert not is_verified(broker, PRODUCER, "t", 0)


@pytest.mark.parametrize(
    ("answer", "support", "told"),
    [
        (ErrorCode.NOT_COORDINATOR, Support.ADDS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.PRODUCER_FENCED, Support.ADDS, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, Support.BASIC, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, Support.ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Support.ADDS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
async def test_what_a_producer_is_told(broker, answer, support, told):
    """Errors that its version knows; and nothing stays behind."""
    broker.peers = Coordinator(answer)
    with pytest.raises(KafkaError) as refused:
        await _question(broker, support).wait()
    assert refused.value.code is told
    assert broker.verified == {}

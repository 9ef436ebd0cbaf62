"""S20: a transaction that ends while its coordinator is asked takes the permission back.

And the questions of many producers share requests, in which each keeps its own answer (KIP-890).
"""

from pathlib import Path

import pytest
import trio

from kwire.broker.markers import EndMarker, write_marker
from kwire.broker.remote_coordinators import MOST_PARTITIONS
from kwire.broker.remote_verification import MOST_OTHERS, Question, is_verified
from kwire.broker.topic_auto_creation import create_missing
from kwire.broker.verification import Support
from kwire.coordinator.transaction.state import ProducerIdAndEpoch
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tests.support.in_process import running_server

PRODUCER = ProducerIdAndEpoch(7, 3)
ABORT = EndMarker(7, 3, 0, committed=False, transaction_version=0)


class Coordinator:
    """A coordinator on another broker; ``meanwhile`` happens before it answers.

    It agrees to all but the partitions in ``codes``. With a ``gate`` it answers when that opens.
    """

    def __init__(self, code: int = 0, meanwhile=lambda: None) -> None:
        self.codes = dict.fromkeys([("tx", 0)], code)
        self.gate: trio.Event | None = None
        self.asked: list[tuple[int, list[str]]] = []
        self.only_verifies: list[bool] = []
        self._meanwhile = meanwhile

    async def ask(self, node_id, request, response, **options):
        assert response is AddPartitionsToTxnResponse
        self.asked.append((node_id, [one.transactional_id for one in request.transactions]))
        self.only_verifies += [one.verify_only for one in request.transactions]
        if self.gate is not None:
            await self.gate.wait()
        self._meanwhile()
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=[self.answer(one.transactional_id, told) for told in one.topics],
                )
                for one in request.transactions
            ]
        )

    def answer(self, transactional_id, topic):
        rows = [
            AddPartitionsToTxnPartitionResult(
                partition_index=index,
                partition_error_code=self.codes.get((transactional_id, index), 0),
            )
            for index in topic.partitions
        ]
        return AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=rows)


@pytest.fixture
async def broker(tmp_path: Path, monkeypatch):
    async with running_server(tmp_path, {"num.partitions": "1"}) as server:
        await create_missing(server.broker, ["t"])
        monkeypatch.setattr(server.broker.transactions.lookup, "leader_for", lambda _: 2)
        yield server.broker


def _question(broker, support=Support.ADDS, name="tx", producer=PRODUCER, others=()) -> Question:
    return Question(
        broker,
        name,
        producer,
        ("t", 0),
        others,
        adds=support is Support.ADDS,
        knows_abortable=support >= Support.ABORTABLE,
    )


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


@pytest.mark.parametrize("support", [Support.BASIC, Support.ABORTABLE, Support.ADDS])
async def test_a_partition_is_added_for_producers_that_leave_it_to_the_broker(broker, support):
    """Others have added it themselves, and the coordinator is asked whether they have (KIP-890)."""
    broker.peers = Coordinator()
    await _question(broker, support).wait()
    assert broker.peers.only_verifies == [support is not Support.ADDS]


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


async def _ask_all(broker, questions) -> list[ErrorCode]:
    """Ask all at the same time; the coordinator answers when all wait. What each was told."""
    told = [ErrorCode.NONE] * len(questions)
    broker.peers.gate = trio.Event()

    async def ask(number, question) -> None:
        try:
            await question.wait()
        except KafkaError as error:
            told[number] = error.code

    async with trio.open_nursery() as nursery:
        for number, question in enumerate(questions):
            nursery.start_soon(ask, number, question)
        await trio.testing.wait_all_tasks_blocked()
        broker.peers.gate.set()
    return told


async def test_producers_that_begin_together_share_requests(broker):
    """What is asked while a request is under way goes in the next one, each with its answer."""
    coordinator = broker.peers = Coordinator()
    coordinator.codes["p7", 0] = ErrorCode.INVALID_TXN_STATE
    producers = [ProducerIdAndEpoch(100 + number, 0) for number in range(50)]
    questions = [
        _question(broker, name=f"p{number}", producer=producer)
        for number, producer in enumerate(producers)
    ]
    told = await _ask_all(broker, questions)
    assert told == [ErrorCode.INVALID_TXN_STATE if n == 7 else ErrorCode.NONE for n in range(50)]
    first, *rest = [names for _, names in coordinator.asked]
    assert sorted(first + [one for some in rest for one in some]) == sorted(
        f"p{number}" for number in range(50)
    )
    assert len(rest) <= 1
    agreed = [is_verified(broker, producer, "t", 0) for producer in producers]
    assert agreed == [number != 7 for number in range(50)]


async def test_coordinators_on_several_brokers_do_not_wait_for_each_other(broker, monkeypatch):
    """Each broker is asked at once, though another one hasn't answered yet."""
    coordinator = broker.peers = Coordinator()
    monkeypatch.setattr(broker.transactions.lookup, "leader_for", {"a": 2, "b": 3}.__getitem__)
    questions = [
        _question(broker, name=name, producer=ProducerIdAndEpoch(number, 0))
        for number, name in enumerate("ab")
    ]
    coordinator.gate = trio.Event()
    async with trio.open_nursery() as nursery:
        for question in questions:
            nursery.start_soon(question.wait)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(coordinator.asked) == [(2, ["a"]), (3, ["b"])]
        coordinator.gate.set()


async def test_requests_are_bounded_and_name_an_id_once(broker):
    """Two epochs of one id are asked one after the other; many partitions take many requests."""
    coordinator = broker.peers = Coordinator()
    many = [("t", index) for index in range(MOST_PARTITIONS)]
    questions = [
        _question(
            broker, name=f"large{number}", producer=ProducerIdAndEpoch(number, 0), others=many
        )
        for number in range(3)
    ]
    questions += [_question(broker, producer=ProducerIdAndEpoch(9, epoch)) for epoch in range(2)]
    assert await _ask_all(broker, questions) == [ErrorCode.NONE] * 5
    names = [names for _, names in coordinator.asked]
    assert sorted(one for some in names for one in some) == [
        "large0",
        "large1",
        "large2",
        "tx",
        "tx",
    ]
    assert all(len(set(some)) == len(some) for some in names)
    assert all(sum(one.startswith("large") for one in some) <= 1 for some in names)


async def test_partitions_of_one_request_are_asked_about_together(broker):
    """Each has its own answer: one that wasn't added takes no permission from the others."""
    coordinator = broker.peers = Coordinator()
    coordinator.codes["tx", 1] = ErrorCode.TRANSACTION_ABORTABLE
    await _question(broker, Support.BASIC, others=[("t", 0), ("t", 1), ("t", 2)]).wait()
    assert coordinator.asked == [(2, ["tx"])]
    verified = [key[1] for key, note in broker.verified.items() if note.is_answered]
    assert sorted(verified) == [0, 2]
    assert all(note.is_answered for note in broker.verified.values())


async def test_what_one_question_costs_is_bounded(broker):
    """However many partitions a client's request has."""
    broker.peers = Coordinator()
    await _question(broker, others=(("t", index) for index in range(1_000_000))).wait()
    assert len(broker.verified) == MOST_OTHERS


async def test_a_partition_that_the_answer_leaves_out_is_asked_about_again(broker, monkeypatch):
    """Silence is no permission."""
    broker.peers = Coordinator()
    monkeypatch.setattr(Coordinator, "answer", lambda *_: AddPartitionsToTxnTopicResult(name="t"))
    with pytest.raises(KafkaError) as refused:
        await _question(broker).wait()
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert broker.verified == {}


async def test_a_client_that_goes_away_leaves_nothing_behind(broker):
    """Its notes are gone, and the others that share its request are answered."""
    coordinator = broker.peers = Coordinator()
    coordinator.gate = trio.Event()
    other = ProducerIdAndEpoch(8, 0)
    async with trio.open_nursery() as nursery:
        gone, stays = _question(broker), _question(broker, name="other", producer=other)
        with trio.move_on_after(0) as leaving:
            await gone.wait()
        assert leaving.cancelled_caught
        nursery.start_soon(stays.wait)
        await trio.testing.wait_all_tasks_blocked()
        coordinator.gate.set()
    assert not is_verified(broker, PRODUCER, "t", 0)
    assert is_verified(broker, other, "t", 0)
    assert len(broker.verified) == 1

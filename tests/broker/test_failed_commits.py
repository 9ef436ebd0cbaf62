"""A commit of many that fails: only who is to blame fails, and nobody hears what was never so."""

from collections.abc import Callable, Sequence

import trio
import trio.testing

from kwire.broker.commits import WAIT_S
from kwire.broker.proposals import MOST_BYTES, Decide
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, ConfigChanged, ProducerIdsAllocated
from kwire.metadata.image import ConfigResourceType, MetadataImage
from kwire.metadata.store import GuardFailed, OutcomeUnknown
from kwire.testing.waiting import until
from tests.broker.queueing import Queue
from tests.support.asking import error_of
from tests.support.in_process import RawClient, running_server
from tests.support.sieve import Refuse, Sieve, refusing

UNKNOWN = OutcomeUnknown("no answer")
STORAGE = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no")


def _large(number: int, size_bytes: int) -> Change:
    """A change of this size."""
    return ConfigChanged(ConfigResourceType.TOPIC, "t", f"c{number}", "x" * size_bytes)


def _sieved(queue: Queue, refuse: Refuse) -> Sieve:
    sieve = Sieve(queue.store, refuse)
    queue.store.is_open.set()
    return sieve


async def _ask(queue: Queue, decides: Sequence[Decide], told: dict[int, ErrorCode]) -> None:
    """Ask for decisions, which wait behind a commit of another one."""

    async def ask(number: int, decide: Decide) -> None:
        try:
            await queue.commits.commit(decide)
        except KafkaError as error:
            told[number] = error.code
        else:
            told[number] = ErrorCode.NONE

    await queue.add(0)
    for number, decide in enumerate(decides):
        queue.nursery.start_soon(ask, number, decide)
        await trio.testing.wait_all_tasks_blocked()


async def test_a_change_that_is_too_large_fails_alone(nursery) -> None:
    """Those who share a commit with it are written."""

    def refuse(changes: Sequence[Change]) -> None:
        if any(change == _large(1, 1000) for change in changes):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "too many for a frame")

    queue, told = Queue(nursery), {}
    sieve = _sieved(queue, refuse)
    decides = [
        lambda _: [ProducerIdsAllocated(1)],
        lambda _: [_large(1, 1000)],
        lambda _: [ProducerIdsAllocated(2)],
    ]
    await _ask(queue, decides, told)
    sieve.is_open.set()
    await until(lambda: len(told) == 3)
    assert told == {0: ErrorCode.NONE, 1: ErrorCode.KAFKA_STORAGE_ERROR, 2: ErrorCode.NONE}
    assert queue.store.own == [0, 1, 2]
    assert sieve.tried == [1, 3, 1, 1, 1]


async def test_a_commit_is_full_by_bytes(nursery) -> None:
    """Large decisions don't share a commit, so a store that takes each of them takes all."""
    queue, told = Queue(nursery), {}
    sieve = _sieved(queue, lambda changes: None)
    decides = [
        lambda _: [ProducerIdsAllocated(1)],
        lambda _: [_large(1, MOST_BYTES)],
        lambda _: [ProducerIdsAllocated(2)],
        lambda _: [_large(2, MOST_BYTES // 2)],
        lambda _: [_large(3, MOST_BYTES // 3)],
    ]
    await _ask(queue, decides, told)
    sieve.is_open.set()
    await until(lambda: len(told) == 5)
    assert set(told.values()) == {ErrorCode.NONE}
    assert sieve.tried == [1, 1, 1, 3]


async def _told_of_the_same(nursery, refuse: Refuse) -> list[bool]:
    """What two who take the same number find when their commit fails: that it is taken?"""
    queue, told = Queue(nursery), {}
    is_taken = [False, False]

    def take(place: int) -> Decide:
        def decide(image: MetadataImage) -> list[Change]:
            is_taken[place] = image.next_producer_id == 7
            return [] if is_taken[place] else [ProducerIdsAllocated(7)]

        return decide

    sieve = _sieved(queue, lambda changes: len(sieve.tried) > 1 and refuse(changes))
    await _ask(queue, [take(0), take(1)], told)
    sieve.is_open.set()
    await until(lambda: sieve.tried[1:] != [])
    await until(lambda: len(told) == 2)
    assert ErrorCode.NONE not in told.values()
    return is_taken


async def test_nobody_hears_what_was_true_only_in_a_commit_that_failed(nursery) -> None:
    """The store refuses it: the second one doesn't find taken what was never taken."""
    assert await _told_of_the_same(nursery, refusing(STORAGE)) == [False, False]


async def test_nobody_hears_what_was_true_only_in_a_commit_whose_session_was_over(nursery) -> None:
    """The guard of the commit had failed."""
    assert await _told_of_the_same(nursery, refusing(GuardFailed())) == [False, False]


async def test_nobody_hears_what_may_be_true_in_a_commit_of_unknown_outcome(nursery) -> None:
    """No answer of the store came: it isn't committed again, and nothing is told of it."""
    assert await _told_of_the_same(nursery, refusing(UNKNOWN)) == [False, False]


async def test_nobody_hears_what_is_true_only_in_a_commit_that_hangs(
    nursery, autojump_clock
) -> None:
    """The one behind waits for the commit of the other, and too long."""
    queue = Queue(nursery)
    seen: list[int] = []

    def decide(image: MetadataImage) -> list[Change]:
        seen.append(image.next_producer_id)
        return []

    store_hangs = trio.Event()
    told: dict[int, ErrorCode] = {}
    sieve = _sieved(queue, lambda changes: None)
    await _ask(queue, [lambda _: [ProducerIdsAllocated(7)], decide], told)
    commit, queue.store.commit = queue.store.commit, _hanging(store_hangs)
    assert commit == sieve.commit
    sieve.is_open.set()
    await store_hangs.wait()
    with trio.move_on_after(WAIT_S + 1):
        await trio.sleep_forever()
    assert set(told.values()) == {ErrorCode.REQUEST_TIMED_OUT}
    assert seen == [7, 0]


def _hanging(hangs: trio.Event) -> Callable[..., object]:
    async def commit(*arguments: object) -> int:
        hangs.set()
        await trio.sleep_forever()
        raise AssertionError

    return commit


async def test_two_who_create_a_topic_get_the_error_of_the_store(tmp_path) -> None:
    """Neither is told that the topic exists, which it doesn't; the same holds for deletions.

    All were first decided on the image that is still the newest one when their commit has failed.
    """
    codes: list[int] = []

    async def create(client: RawClient) -> None:
        codes.append(await error_of(client.topic("x")))

    async def delete(client: RawClient) -> None:
        codes.append(await error_of(client.delete_topic("orders")))

    async with running_server(tmp_path) as server, trio.open_nursery() as asking:
        broker = server.broker
        await server.topic("orders")
        sieve = Sieve(broker.commits.store, refusing(STORAGE))
        asking.start_soon(create, await server.connect())
        await until(lambda: sieve.tried)
        for number, ask in enumerate([create, create, delete, delete], 1):
            asking.start_soon(ask, await server.connect())
            await until(lambda waiting=number: broker.commits.waiting == waiting)
        sieve.is_open.set()
        await until(lambda: len(codes) == 5)
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 5
        assert "orders" in broker.image.topics_by_name

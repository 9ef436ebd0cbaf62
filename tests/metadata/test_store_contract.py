"""What every metadata store promises; the four stores pass the same tests, etcd with each login.

Several brokers share one truth. ``open_store`` gives each its store.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
import trio

from kwire.metadata import embedded
from kwire.metadata.changes import ClusterNamed, ConfigChanged, ProducerIdsAllocated, TopicCreated
from kwire.metadata.etcd import encoding, images
from kwire.metadata.image import ConfigResourceType, PartitionImage, TopicImage
from kwire.metadata.store import (
    Commit,
    Guard,
    GuardFailed,
    Member,
    MetadataStore,
    NodeIdTaken,
    RevisionConflict,
    RevisionGone,
    Sessions,
)
from tests.metadata.real_etcd import KINDS
from tests.metadata.stores import OPENERS, Open, need_etcd

TTL_MS = 6000
WAIT_S = 20


@pytest.fixture(
    params=[
        pytest.param(name, marks=[pytest.mark.processes] if name in KINDS else [])
        for name in OPENERS
    ]
)
async def open_store(request, tmp_path, etcd) -> AsyncIterator[Open]:
    """Gives a broker its store."""
    if request.param in KINDS:
        need_etcd()
    async with OPENERS[request.param](tmp_path, etcd) as opened:
        yield opened


def _ids(number: int) -> list[ProducerIdsAllocated]:
    return [ProducerIdsAllocated(number)]


def _member(node_id: int, incarnation: str = "a", directory: str | None = None) -> Member:
    return Member(node_id, f"{node_id}{incarnation}", (directory or f"disk{node_id}",))


async def _take(store: MetadataStore, revision: int, number: int) -> list[Commit]:
    """The next commits after a revision, as a watch sees them."""
    commits = []
    with trio.fail_after(WAIT_S):
        async with aclosing(store.watch(revision)) as watched:
            async for commit in watched:
                commits.append(commit)
                if len(commits) == number:
                    break
    return commits


async def _until(store: MetadataStore, is_so) -> Sessions:
    """The first sessions for which something is so."""
    with trio.fail_after(WAIT_S):
        async with aclosing(store.sessions()) as found:
            async for sessions in found:
                if is_so(sessions):
                    return sessions
    raise AssertionError("the sessions ended")


async def _until_over(session) -> None:
    with trio.fail_after(WAIT_S):
        while not session.is_over:
            await trio.lowlevel.checkpoint()


async def test_what_is_committed_is_read_by_all(open_store):
    """A commit makes the next revision, and is in the image when ``commit`` returns."""
    one, two = await open_store(1), await open_store(2)
    assert (await two.read()).revision == 0
    changes = [ClusterNamed("abc"), ConfigChanged(ConfigResourceType.TOPIC, "t", "a", "1")]
    assert await one.commit(0, changes) == 1
    assert await two.commit(1, _ids(1000)) == 2
    for store in (one, two):
        image = await store.read()
        assert (image.revision, image.cluster_id, image.next_producer_id) == (2, "abc", 1000)
        assert image.config(ConfigResourceType.TOPIC, "t") == {"a": "1"}


@pytest.mark.parametrize("expected", [0, 1, 3, 7])
async def test_only_the_newest_revision_takes_a_commit(open_store, expected):
    """A decision on an older image, or on one that doesn't exist, changes nothing."""
    store = await open_store(1)
    for revision in range(2):
        await store.commit(revision, _ids(revision))
    with pytest.raises(RevisionConflict):
        await store.commit(expected, _ids(77))
    assert (await store.read()).next_producer_id == 1


async def test_of_many_at_once_one_wins(open_store):
    """Each revision is made by one broker, and the others decide again."""
    stores = [await open_store(node_id) for node_id in range(1, 5)]
    made: list[int] = []

    async def add(store: MetadataStore, number: int) -> None:
        done = 0
        while done < 5:
            image = await store.read()
            try:
                made.append(await store.commit(image.revision, _ids(image.next_producer_id + 1)))
                done += 1
            except RevisionConflict:
                continue

    async with trio.open_nursery() as nursery:
        for number, store in enumerate(stores):
            nursery.start_soon(add, store, number)
    assert sorted(made) == list(range(1, 21))
    assert (await stores[0].read()).next_producer_id == 20


async def test_all_watchers_see_the_same_commits_in_order(open_store):
    """Whoever made them, and whenever the watch began."""
    one, two = await open_store(1), await open_store(2)
    seen: list[list[Commit]] = []

    async def watch(store: MetadataStore) -> None:
        seen.append(await _take(store, 0, 4))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, one)
        nursery.start_soon(watch, two)
        for revision in range(4):
            await (one, two)[revision % 2].commit(revision, _ids(revision))
    expected = [(revision + 1, _ids(revision)) for revision in range(4)]
    assert [[(commit.revision, list(commit.changes)) for commit in one] for one in seen] == [
        expected,
        expected,
    ]
    assert [commit.revision for commit in await _take(two, 2, 2)] == [3, 4]


async def test_a_large_commit_is_one_commit(open_store, monkeypatch):
    """More than fits into one key of etcd is seen at once or not at all."""
    monkeypatch.setattr(encoding, "PART_BYTES", 16 << 10)
    one, two = await open_store(1), await open_store(2)
    changes = [TopicCreated(_topic(number)) for number in range(1_200)]
    seen: list[Commit] = []
    async with aclosing(two.watch(0)) as commits, trio.open_nursery() as nursery:

        async def watch() -> None:
            seen.append(await anext(commits))

        nursery.start_soon(watch)
        assert await one.commit(0, changes) == 1
    assert list(seen[0].changes) == changes
    assert len((await two.read()).topics_by_name) == 1_200


def _topic(number: int) -> TopicImage:
    topic_id = (number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128)).to_bytes(16, "big")
    return TopicImage(f"topic-{number}", topic_id, (PartitionImage(1, 0, (1,), (1,)),), 1)


async def test_what_was_deleted_is_read_as_an_image(open_store, monkeypatch):
    """A broker that missed too many commits is told so; the image has them all."""
    monkeypatch.setattr(images, "COMMITS_BEFORE_SNAPSHOT", 4)
    monkeypatch.setattr(embedded, "COMMITS_BEFORE_SNAPSHOT", 4)
    monkeypatch.setattr(embedded, "RECENT_COMMITS", 4)
    one = await open_store(1)
    session = await one.begin_session(_member(1), TTL_MS)
    guard = await one.hold_controller(session)
    assert guard is not None
    for revision in range(12):
        await one.commit(revision, _ids(revision))
        await one.upkeep(await one.read(), guard)
    two = await open_store(2)
    for revision in (0, 2):
        with pytest.raises(RevisionGone):
            await _take(two, revision, 1)
    image = await two.read()
    assert (image.revision, image.next_producer_id) == (12, 11)
    assert await two.commit(12, _ids(12)) == 13
    assert [commit.revision for commit in await _take(one, 12, 1)] == [13]
    with pytest.raises(RevisionConflict):
        await two.commit(0, _ids(99))


async def test_a_session_is_seen_by_all_until_it_is_closed(open_store):
    """The other brokers learn of both, with the member as it was given."""
    one, two = await open_store(1), await open_store(2)
    assert await _until(two, lambda sessions: True) == Sessions({}, None)
    session = await one.begin_session(_member(1), TTL_MS)
    assert session.ttl_ms >= TTL_MS
    found = await _until(two, lambda sessions: 1 in sessions.members)
    assert found.members == {1: (_member(1), session.guard)}
    assert not session.is_over
    await session.close()
    assert session.is_over
    await _until(two, lambda sessions: not sessions.members)


async def test_a_session_and_its_store_are_reached(open_store):
    """``kept_ms`` grows while the store answers keepalives, if it isn't infinite."""
    session = await (await open_store(1)).begin_session(_member(1), TTL_MS)
    first = session.kept_ms
    with trio.fail_after(WAIT_S):
        while session.kept_ms == first != float("inf"):
            await trio.lowlevel.checkpoint()
    assert not session.is_over


async def test_a_guard_that_is_over_refuses_a_commit(open_store):
    """And the store stays as it was. A new session has a new guard."""
    one, two = await open_store(1), await open_store(2)
    session = await one.begin_session(_member(1), TTL_MS)
    assert await one.commit(0, _ids(1), session.guard) == 1
    await session.close()
    for store, revision in ((one, 1), (two, 1)):
        with pytest.raises(GuardFailed):
            await store.commit(revision, _ids(2), session.guard)
    again = await one.begin_session(_member(1), TTL_MS)
    assert again.guard != session.guard
    with pytest.raises(GuardFailed):
        await one.commit(1, _ids(2), session.guard)
    assert await one.commit(1, _ids(3), again.guard) == 2
    assert (await two.read()).next_producer_id == 3


async def test_a_guard_protects_the_first_commit_too(open_store):
    """There is no commit before it to compare with."""
    store = await open_store(1)
    with pytest.raises(GuardFailed):
        await store.commit(0, _ids(1), Guard("live/1", 99))
    assert (await store.read()).revision == 0


async def test_one_broker_is_the_controller(open_store):
    """Until its session ends; then another one may be, and the first one's guard is over."""
    one, two = await open_store(1), await open_store(2)
    first, second = [
        await store.begin_session(_member(node_id), TTL_MS)
        for node_id, store in enumerate((one, two), 1)
    ]
    guard = await one.hold_controller(first)
    assert guard is not None
    assert await one.hold_controller(first) == guard
    assert await two.hold_controller(second) is None
    sessions = await _until(two, lambda sessions: sessions.controller)
    assert sessions.controller == (1, guard)
    assert await one.commit(0, _ids(1), guard) == 1
    await first.close()
    await _until(two, lambda sessions: sessions.controller is None)
    successor = await two.hold_controller(second)
    assert successor is not None
    with pytest.raises(GuardFailed):
        await one.commit(1, _ids(2), guard)
    assert await two.commit(1, _ids(2), successor) == 2


async def test_a_node_id_is_used_once(open_store):
    """Another process with other directories is refused; the same directories take over."""
    one, two, three = [await open_store(1) for _ in range(3)]
    session = await one.begin_session(_member(1), TTL_MS)
    hold = await one.hold_controller(session)
    with pytest.raises(NodeIdTaken, match=r"node\.id 1 is in use"):
        await two.begin_session(_member(1, "b", "other"), TTL_MS)
    assert not session.is_over
    restarted = await three.begin_session(_member(1, "c", "disk1"), TTL_MS)
    await _until_over(session)
    with pytest.raises(GuardFailed):
        await one.commit(0, _ids(1), session.guard)
    with pytest.raises(GuardFailed):
        await one.commit(0, _ids(1), hold)
    assert await three.hold_controller(restarted) not in (None, hold)
    assert await three.commit(0, _ids(1), restarted.guard) == 1


async def test_a_session_of_a_dead_process_is_ended_by_others(open_store):
    """With what it holds. A session that began since isn't touched."""
    one, two = await open_store(1), await open_store(2)
    session = await one.begin_session(_member(1), TTL_MS)
    await one.hold_controller(session)
    await two.end(session.guard)
    assert await _until(two, lambda sessions: not sessions.members) == Sessions({}, None)
    await _until_over(session)
    again = await one.begin_session(_member(1), TTL_MS)
    await two.end(session.guard)
    assert await one.commit(0, _ids(1), again.guard) == 1


async def test_a_controller_stays_when_another_member_goes(open_store):
    """Its guard is as good as before."""
    one, two = await open_store(1), await open_store(2)
    first = await one.begin_session(_member(1), TTL_MS)
    second = await two.begin_session(_member(2), TTL_MS)
    guard = await one.hold_controller(first)
    assert guard is not None
    await second.close()
    sessions = await _until(one, lambda sessions: 2 not in sessions.members and sessions)
    assert sessions.controller == (1, guard)
    assert await one.commit(0, _ids(1), guard) == 1


async def test_a_hold_is_ended_without_its_session(open_store):
    """Another broker becomes the controller, the old one stays a member."""
    one, two = await open_store(1), await open_store(2)
    first = await one.begin_session(_member(1), TTL_MS)
    second = await two.begin_session(_member(2), TTL_MS)
    guard = await one.hold_controller(first)
    assert guard is not None
    await two.end(guard)
    assert await two.hold_controller(second) is not None
    with pytest.raises(GuardFailed):
        await one.commit(0, _ids(1), guard)
    assert await one.commit(0, _ids(1), first.guard) == 1


def test_all_four_are_tested() -> None:
    """The stores that there are."""
    assert set(OPENERS) == {"embedded", "supervised", "simulated", *KINDS}

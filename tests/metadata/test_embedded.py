"""The embedded store: durable commits in order, one winner, a file that explains itself."""

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest
import trio

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata import embedded
from kwire.metadata.changes import ClusterNamed, ConfigChanged, ProducerIdsAllocated
from kwire.metadata.embedded import FILE_NAME, EmbeddedStore
from kwire.metadata.image import ConfigResourceType, MetadataImage
from kwire.metadata.store import Commit, RevisionConflict, RevisionGone, StoreUnusable

KILLED_WRITER = """
import sys, trio
from pathlib import Path
from kwire.metadata.changes import ProducerIdsAllocated
from kwire.metadata.embedded import EmbeddedStore

async def main():
    store = EmbeddedStore.open(Path(sys.argv[1]))
    revision = (await store.read()).revision
    while True:
        revision = await store.commit(revision, [ProducerIdsAllocated(revision + 1)])
        print(revision, flush=True)

trio.run(main)
"""


@pytest.fixture
def path(tmp_path):
    """Where the store is."""
    return tmp_path / FILE_NAME


def _ids(number):
    return [ProducerIdsAllocated(number)]


async def test_commits_are_there_after_a_restart(path):
    """What was committed is read back, revision included."""
    store = EmbeddedStore.open(path)
    assert (await store.read()).revision == 0
    changes = [ClusterNamed("abc"), ConfigChanged(ConfigResourceType.TOPIC, "t", "a", "1")]
    assert await store.commit(0, changes) == 1
    assert await store.commit(1, _ids(1000)) == 2
    image = await store.read()
    await store.close()
    store = EmbeddedStore.open(path)
    assert await store.read() == image
    assert (image.revision, image.cluster_id, image.next_producer_id) == (2, "abc", 1000)
    await store.close()


async def test_what_a_crash_left_of_a_new_file_is_made_anew(path):
    """A file that was never finished says nothing, whatever is in it."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.write_bytes(b"half of it")
    store = EmbeddedStore.open(path)
    assert (await store.read()).revision == 0
    await store.commit(0, _ids(1))
    await store.close()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


async def test_a_journal_whose_file_is_gone_is_not_taken_into_a_new_one(path):
    store = EmbeddedStore.open(path)
    await store.commit(0, [ClusterNamed("gone")])
    journal = path.with_name(f"{path.name}-wal")
    content = journal.read_bytes()
    assert content
    await store.close()
    path.unlink()
    journal.write_bytes(content)
    store = EmbeddedStore.open(path)
    assert (await store.read()).revision == 0
    await store.close()


async def test_an_empty_file_is_filled(path):
    """Earlier starts may have left one, and so may a person."""
    path.touch()
    store = EmbeddedStore.open(path)
    await store.commit(0, _ids(1))
    await store.close()
    store = EmbeddedStore.open(path)
    assert (await store.read()).next_producer_id == 1
    await store.close()


async def test_only_one_commits_on_a_revision(path):
    """Of two that decided on the same revision one is told to decide again."""
    store = EmbeddedStore.open(path)
    outcomes = []

    async def commit(number):
        try:
            outcomes.append(await store.commit(0, _ids(number)))
        except RevisionConflict:
            outcomes.append("conflict")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit, 1)
        nursery.start_soon(commit, 2)
    assert sorted(outcomes, key=str) == [1, "conflict"]
    with pytest.raises(RevisionConflict):
        await store.commit(7, _ids(3))
    await store.close()


async def test_everybody_sees_the_same_commits(path):
    """A watch begins after any revision that is still known, and sees each commit once."""
    store = EmbeddedStore.open(path)
    early = store.watch(0)
    for revision in range(3):
        await store.commit(revision, _ids(revision))
    late = store.watch(1)
    await store.commit(3, _ids(3))
    await store.close()
    everything = [Commit(revision + 1, _ids(revision)) for revision in range(4)]
    assert [commit async for commit in early] == everything
    assert [commit async for commit in late] == everything[1:]


async def test_a_watch_from_too_long_ago_is_told_so(path):
    """After a restart the commits before it are an image, not a stream."""
    store = EmbeddedStore.open(path)
    await store.commit(0, _ids(1))
    await store.close()
    store = EmbeddedStore.open(path)
    for revision in (0, 2):
        with pytest.raises(RevisionGone):
            store.watch(revision)
    store.watch(1)
    await store.close()


async def test_the_file_does_not_grow_for_ever(path, monkeypatch):
    """Old commits give way to a snapshot, which makes the same image."""
    monkeypatch.setattr(embedded, "COMMITS_BEFORE_SNAPSHOT", 10)
    store = EmbeddedStore.open(path)
    await store.commit(0, [ClusterNamed("abc")])
    for revision in range(1, 36):
        await store.commit(revision, _ids(revision))
    image = await store.read()
    await store.close()
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute("SELECT count(*) FROM commits").fetchone()
    connection.close()
    assert count <= 10
    store = EmbeddedStore.open(path)
    assert await store.read() == image
    await store.close()


async def test_a_write_that_fails_changes_nothing(path):
    """A full disk is the client's to know, and the next commit can succeed."""
    await EmbeddedStore.open(path).close()
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    store = EmbeddedStore(connection, MetadataImage(), [])
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    big = [ConfigChanged(ConfigResourceType.TOPIC, "t", "a", "x" * 100_000)]
    with pytest.raises(KafkaError, match="full") as caught:
        await store.commit(0, big)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (await store.read()).revision == 0
    connection.execute("PRAGMA max_page_count = 1000000")
    assert await store.commit(0, big) == 1
    await store.close()


def test_a_killed_process_loses_no_commit_that_returned(path):
    """SIGKILL at any moment leaves every revision that was told to somebody."""
    command = [sys.executable, "-c", KILLED_WRITER, str(path)]
    told = 0
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            watchdog = threading.Timer(20, process.kill)
            watchdog.start()
            assert process.stdout is not None
            for line in process.stdout:
                told = int(line)
                if told % 20 == 0:
                    process.kill()
            watchdog.cancel()
        store = EmbeddedStore.open(path)
        found = trio.run(store.read)
        trio.run(store.close)
        assert found.revision >= told >= 20
        assert found.next_producer_id == found.revision


@pytest.mark.parametrize("content", [b"not a database at all, but long enough" * 99, b"\0" * 8192])
def test_a_damaged_file_is_one_clear_error(path, content):
    """The error names the file and a way out."""
    path.write_bytes(content)
    with pytest.raises(StoreUnusable, match="restore the file") as caught:
        EmbeddedStore.open(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("changes", ["{}", "[1]", "[{}]", '[{"type": "Nonsense"}]', "not json"])
async def test_damaged_contents_are_one_clear_error(path, changes):
    """So are commits that aren't what this kwire writes."""
    await EmbeddedStore.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO commits VALUES (1, ?)", (changes,))
    connection.commit()
    connection.close()
    with pytest.raises(StoreUnusable, match="can't be read"):
        EmbeddedStore.open(path)


async def test_a_newer_format_is_one_clear_error(path):
    """An old kwire doesn't touch what a newer one wrote."""
    await EmbeddedStore.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = '2'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreUnusable, match="has format 2, this kwire reads format 1"):
        EmbeddedStore.open(path)


def test_no_directory_no_store(tmp_path):
    """A place that isn't there is a clear error too."""
    with pytest.raises(StoreUnusable):
        EmbeddedStore.open(tmp_path / "nowhere" / FILE_NAME)


def _config(value):
    return [ConfigChanged(ConfigResourceType.TOPIC, "t", "a", value)]


async def test_recent_commits_are_remembered_up_to_a_size(path, monkeypatch):
    """They would take as much memory as all that was ever created, long after it is gone."""
    monkeypatch.setattr(embedded, "RECENT_BYTES", 10_000)
    store = EmbeddedStore.open(path)
    for revision in range(20):
        await store.commit(revision, _config("x" * 3000))
    watch = store.watch(17)
    assert [(await anext(watch)).revision for _ in range(3)] == [18, 19, 20]
    with pytest.raises(RevisionGone):
        store.watch(16)
    await store.commit(20, _config("x" * 20_000))
    with pytest.raises(RevisionGone):
        store.watch(20)
    store.watch(21)
    await store.close()


async def test_so_many_recent_commits_are_remembered(path, monkeypatch):
    """As many as the limit says, however small they are."""
    monkeypatch.setattr(embedded, "RECENT_COMMITS", 4)
    store = EmbeddedStore.open(path)
    for revision in range(10):
        await store.commit(revision, _config(str(revision)))
    watch = store.watch(6)
    assert [(await anext(watch)).revision for _ in range(4)] == [7, 8, 9, 10]
    with pytest.raises(RevisionGone):
        store.watch(5)
    await store.close()


@pytest.mark.parametrize("restarts", [False, True])
async def test_large_commits_are_replaced_by_a_snapshot_early(path, monkeypatch, restarts):
    """A file is no larger than a few images, whatever the commits that led to the last one."""
    monkeypatch.setattr(embedded, "BYTES_BEFORE_SNAPSHOT", 100_000)
    store = EmbeddedStore.open(path)
    for revision in range(100):
        await store.commit(revision, _config(str(revision) + "x" * 30_000))
        if restarts and revision % 2:
            await store.close()
            store = EmbeddedStore.open(path)
    image = await store.read()
    await store.close()
    assert path.stat().st_size < 300_000
    store = EmbeddedStore.open(path)
    assert await store.read() == image
    await store.close()


async def test_a_large_snapshot_is_not_written_again_for_small_commits(path, monkeypatch):
    """Commits after it may take as much room as itself, also after a restart."""
    monkeypatch.setattr(embedded, "BYTES_BEFORE_SNAPSHOT", 100)
    store = EmbeddedStore.open(path)
    await store.commit(0, _config("x" * 30_000))
    await store.commit(1, _config("small"))
    await store.close()
    store = EmbeddedStore.open(path)
    for revision in range(2, 10):
        await store.commit(revision, _config("small"))
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM commits").fetchone() == (10,)

"""Deleting a stopped cluster from etcd: nobody loses what isn't stopped, or belongs to another."""

import pytest

from kwire.metadata.changes import ProducerIdsAllocated
from kwire.metadata.etcd import images
from kwire.metadata.store import Member, RevisionConflict
from tests.metadata.stores import OPENERS, need_etcd

STORES = ("simulated", "etcd")


@pytest.fixture(params=STORES)
def opened(request, tmp_path, etcd):
    """Opens a store on an etcd in memory, or on a real one."""
    if request.param == "etcd":
        need_etcd()
    return OPENERS[request.param](tmp_path, etcd)


async def test_all_of_it_goes(opened, monkeypatch):
    """Commits and the snapshot; a second time changes nothing, and a new cluster may begin."""
    monkeypatch.setattr(images, "COMMITS_BEFORE_SNAPSHOT", 3)
    async with opened as open_store:
        store = await open_store(1)
        session = await store.begin_session(Member(1, "a"), 9000)
        guard = await store.hold_controller(session)
        for revision in range(3):
            await store.commit(revision, [ProducerIdsAllocated(revision + 7)])
        await store.upkeep(await store.read(), guard)
        assert await store.members() == [1]
        with pytest.raises(RevisionConflict):
            await store.delete_cluster(3)  # a broker has a session
        await session.close()
        with pytest.raises(RevisionConflict):
            await store.delete_cluster(2)  # there are newer commits
        assert (await store.read()).next_producer_id == 9
        for _ in range(2):
            await store.delete_cluster(3)
        assert (await store.read()).revision == 0
        assert await store.commit(0, [ProducerIdsAllocated(1)]) == 1
        assert (await store.read()).next_producer_id == 1

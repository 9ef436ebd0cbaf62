"""``kwire leave-store``: a cluster on etcd goes back to one broker or workers, without a copy."""

import shutil

import pytest

from kwire.broker.elsewhere import MOVED, NOTE
from kwire.cli import main
from kwire.errors import ErrorCode, KafkaError
from kwire.log.stop_marks import CLEAN_SHUTDOWN_FILE
from kwire.metadata.embedded import FILE_NAME, EmbeddedStore
from kwire.metadata.etcd.etcd_store import EtcdStore
from kwire.metadata.etcd.gateway import Unreachable
from kwire.testing.process import BrokerFailed, BrokerProcess
from kwire.testing.waiting import wait_until
from kwire.workers.leaving import PENDING
from tests.server.clusters import create, leaders, metadata
from tests.support.etcd import MISSING, Etcd, find_etcd
from tests.workers.clients import consumer, produce, read, stored
from tests.workers.conftest import FEW
from tests.workers.test_processes import At

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def etcd():
    """An etcd of this module."""
    if find_etcd() is None:
        pytest.skip(MISSING)
    with Etcd() as started:
        yield started


@pytest.fixture
def on_etcd(etcd, tmp_path):
    """Makes a broker of one cluster, whose directory is below ``data`` or beside it."""
    made = []

    def make(node_id, directory="data", **settings):
        store = {"kwire.metadata.store": f"{etcd.url}/{tmp_path.name}", "node.id": str(node_id)}
        once = {"offsets.topic.replication.factor": "1"}
        broker = BrokerProcess(tmp_path / directory, {**FEW, **once, **store, **settings})
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.kill()


def _group_reads(bootstrap, topic, count):
    member = consumer(bootstrap, "g")
    member.subscribe([topic])
    values = read(count, member)
    member.commit(asynchronous=False)
    member.close()
    return values


def _leave(*arguments):
    return main(["leave-store", *map(str, arguments)])


def _refused(capsys, *arguments):
    """The line with which the command refuses."""
    assert _leave(*arguments) == 1
    told = capsys.readouterr()
    assert not told.out
    return told.err


def test_one_broker_goes_to_etcd_and_back_and_there_again(start, on_etcd, tmp_path, capsys):
    """Topics, ids, records and groups stay; the same store takes the metadata once more."""
    data = tmp_path / "data"
    alone = start(None)
    create(At(alone.bootstrap), "old", 2)
    cluster_id = alone.process.cluster_id
    first = produce(alone.bootstrap, "old", 2, "a")
    assert _group_reads(alone.bootstrap, "old", len(first)) == first
    assert alone.stop() == 0

    with on_etcd(1) as broker:
        second = produce(broker.bootstrap, "old", 2, "b")
        assert _group_reads(broker.bootstrap, "old", len(second)) == second
        create(broker, "new", 1)
        [topic_id] = [one.topic_id for one in metadata(broker).topics if one.name == "new"]
    store = (data / NOTE).read_text().strip()
    assert _leave("--data-dir", data) == 0
    assert capsys.readouterr().out == (
        f"the metadata of cluster {cluster_id} is in {data / FILE_NAME}, and no longer in {store}; "
        f"go on with kwire serve --data-dir {data}, without kwire.metadata.store\n"
    )
    assert not (data / NOTE).exists()
    assert not (data / MOVED).exists()

    alone = start(None)
    assert alone.process.cluster_id == cluster_id
    told = {one.name: one.topic_id for one in metadata(At(alone.bootstrap)).topics}
    assert told["new"] == topic_id
    third = produce(alone.bootstrap, "old", 2, "c")
    assert _group_reads(alone.bootstrap, "old", len(third)) == third
    create(At(alone.bootstrap), "newest", 1)
    assert alone.stop() == 0

    with on_etcd(1) as broker:
        assert leaders(broker, "newest") == [1]
        values = sorted(first + second + third)
        assert stored(broker.bootstrap, "old", 2, len(values)) == values


def test_brokers_on_etcd_become_workers(start, on_etcd, tmp_path, capsys):
    """Each with the data that it has; as one broker they are refused."""
    assert start(2).stop() == 0
    data = tmp_path / "data"
    with on_etcd(1) as first, on_etcd(2, "data/worker.2") as second:
        wait_until(lambda: len(metadata(first).brokers) == 2, what="both brokers")
        create(first, "t", 4)
        wait_until(lambda: sorted(leaders(second, "t")) == [1, 1, 2, 2], what="the topic")
        values = produce(first.bootstrap, "t", 4, "a")
        assert _group_reads(first.bootstrap, "t", len(values)) == values
    assert _leave("--data-dir", data) == 0
    said = f"go on with kwire serve --data-dir {data} --workers 2, without"
    assert said in capsys.readouterr().out
    with pytest.raises(BrokerFailed, match=r"are on node\.id 2, .*: start with .* --workers 2"):
        start(None)
    workers = start(2)
    assert sorted(leaders(At(workers.addresses[1]), "t")) == [1, 1, 2, 2]
    more = produce(workers.bootstrap, "t", 4, "b")
    assert _group_reads(workers.bootstrap, "t", len(more)) == more
    assert stored(workers.bootstrap, "t", 4, len(values + more)) == sorted(values + more)


def test_where_it_cannot_be_one_line_says_why(on_etcd, tmp_path, capsys):
    """Nothing is changed then: the cluster goes on with its store."""
    data = tmp_path / "data"
    assert "there is no directory" in _refused(capsys, "--data-dir", data)
    with on_etcd(1) as first, on_etcd(2, "other") as second:
        assert "is in use by another process" in _refused(capsys, "--data-dir", data)
        wait_until(lambda: len(metadata(first).brokers) == 2, what="both brokers")
        create(first, "t", 2)
        wait_until(lambda: sorted(leaders(first, "t")) == [1, 2], what="the topic")
        values = produce(first.bootstrap, "t", 2, "a")
        first.stop()
        assert "node.id 2 still runs" in _refused(capsys, "--data-dir", data)
        assert second.stop() == 0
        said = _refused(capsys, "--data-dir", data)
        assert "partitions of t are on node.id 2 alone: start the cluster, move them to" in said
        wrong = "kwire.metadata.store=" + first.settings["kwire.metadata.store"] + "x"
        assert "has no metadata of cluster" in _refused(capsys, "--data-dir", data, "-o", wrong)
        first.restart()
        second.restart()
        wait_until(lambda: sorted(leaders(first, "t")) == [1, 2], what="the topic again")
        assert stored(first.bootstrap, "t", 2, len(values)) == values


def test_replicas_of_others_are_left_behind(start, on_etcd, tmp_path, capsys):
    """By the broker that has all records, which stopped last; the other one begins no cluster."""
    data = tmp_path / "data"
    two = {"default.replication.factor": "2"}
    first, second = on_etcd(1, **two), on_etcd(2, "other", **two)
    with first, second:
        wait_until(lambda: len(metadata(first).brokers) == 2, what="both brokers")
        values = produce(first.bootstrap, "made", 1, "a")
        wait_until(lambda: _in_sync(first, "made") == [1, 2], what="both replicas")
        first.stop()
        more = produce(second.bootstrap, "made", 1, "b")
        second.stop()
    said = _refused(capsys, "--data-dir", data)
    assert "of made on node.id 1 may lack records that node.id 2 has: start the cluster" in said
    with first, second:
        wait_until(lambda: _in_sync(second, "made") == [1, 2], what="both replicas again")
        second.stop()
        first.stop()
    assert _leave("--data-dir", data) == 0
    with pytest.raises(BrokerFailed, match=r"cluster whose metadata is no longer in"):
        second.start()
    capsys.readouterr()
    said = _refused(capsys, "--data-dir", tmp_path / "other")
    assert f"used with another directory, serve that one, which has {FILE_NAME}; other" in said
    with pytest.raises(BrokerFailed, match=f"serve the other one, which has {FILE_NAME}: the rep"):
        BrokerProcess(tmp_path / "other", {**FEW, "node.id": "2"}).start()
    alone = start(None)
    assert stored(alone.bootstrap, "made", 1, len(values + more)) == sorted(values + more)
    told = [one for one in metadata(At(alone.bootstrap)).topics if one.name == "made"]
    assert [(p.replica_nodes, p.isr_nodes) for p in told[0].partitions] == [([1], [1])]


async def _no_room(*_):
    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")


def _in_sync(broker, topic):
    told = [one for one in metadata(broker).topics if one.name == topic]
    return sorted(told[0].partitions[0].isr_nodes) if told else []


def test_after_a_crash_in_between_no_broker_starts_and_the_command_goes_on(
    start, on_etcd, tmp_path, capsys, monkeypatch
):
    """etcd has the metadata no more, and the directory doesn't have it yet."""
    data = tmp_path / "data"
    with on_etcd(1) as broker:
        create(broker, "t", 2)
        values = produce(broker.bootstrap, "t", 2, "a")
    monkeypatch.setattr(EmbeddedStore, "commit", _no_room)
    said = _refused(capsys, "--data-dir", data)
    assert said == "kwire: no room; mend that and give the command again\n"
    monkeypatch.undo()
    delete = EtcdStore.delete_cluster

    async def delete_and_lose_the_answer(store, revision):
        await delete(store, revision)
        raise Unreachable(["etcd-1"], "too slow", may_be_done=True)

    monkeypatch.setattr(EtcdStore, "delete_cluster", delete_and_lose_the_answer)
    said = _refused(capsys, "--data-dir", data)
    assert "etcd-1: too slow; the metadata is taken from etcd, so etcd has to run" in said
    monkeypatch.undo()
    assert (data / PENDING).exists()
    with pytest.raises(BrokerFailed, match="kwire leave-store"):
        start(None)
    with pytest.raises(BrokerFailed, match="kwire leave-store"):
        broker.start()
    assert _leave("--data-dir", data) == 0
    store = f"kwire.metadata.store={broker.settings['kwire.metadata.store']}"
    assert _leave("--data-dir", data, "-o", store) == 0  # a second time changes nothing
    capsys.readouterr()
    said = "has its metadata already: go on with kwire serve, without kwire.metadata.store"
    assert said in _refused(capsys, "--data-dir", data)
    nowhere = "kwire.metadata.store=etcd://127.0.0.1:1/kwire"
    assert said in _refused(capsys, "--data-dir", data, "-o", nowhere)
    alone = start(None)
    assert stored(alone.bootstrap, "t", 2, len(values)) == values


def test_data_that_is_missing_is_named(on_etcd, tmp_path, capsys):
    """A directory of another disk, or a partition's: nothing would be left of its records."""
    more = tmp_path / "more"
    both = {"log.dirs": f"{tmp_path / 'data'},{more}"}
    data, dirs = tmp_path / "data", f"log.dirs={both['log.dirs']}"
    broker = on_etcd(1)
    broker.data_dir = both["log.dirs"]
    with broker:
        create(broker, "t", 4)
        produce(broker.bootstrap, "t", 4, "a")
        broker.restart()  # its second epoch: each partition has been led for certain
        wait_until(lambda: leaders(broker, "t") == [1] * 4, what="the topic")
    said = _refused(capsys, "--data-dir", data)
    assert "has registered with more data directories than these: name all of them" in said
    [lost, *_] = more.glob("t-*")
    shutil.move(lost, tmp_path / "lost")
    said = _refused(capsys, "-o", dirs)
    assert f"the data directories lack {lost.name}: start the cluster with its store" in said
    shutil.move(tmp_path / "lost", lost)
    mark = data / CLEAN_SHUTDOWN_FILE
    newest = mark.read_bytes()
    mark.write_bytes(b'{"version":0,"brokerEpoch":2}')  # a copy from an earlier stop
    assert "node.id 1 has used newer directories since" in _refused(capsys, "-o", dirs)
    mark.write_bytes(newest)
    store = f"kwire.metadata.store={broker.settings['kwire.metadata.store']}"
    capsys.readouterr()
    assert _leave("-o", dirs, "-o", store) == 0
    assert f"go on with kwire serve -o {dirs}, without" in capsys.readouterr().out

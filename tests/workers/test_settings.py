"""What differs between workers: node ids, directories, ports; and locks that all of them share."""

import os

import pytest
import trio

from kwire.cli import serve
from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.log.disk import Disk
from kwire.workers.directory import InheritedLocks, WorkersError, lock_directories, open_metadata
from kwire.workers.settings import worker_settings


def _of(count, **given):
    names = {name.replace("_", "."): value for name, value in given.items()}
    return worker_settings(BrokerConfig.load(names), count)


def test_the_first_worker_is_the_broker_that_was_alone():
    first, _ = _of(
        2, log_dirs="/a,/b", node_id="7", listeners="PLAINTEXT://[::1]:9092", kwire_workers="0"
    )
    assert first["log.dirs"] == ["/a", "/b"]
    assert first["listeners"] == ["PLAINTEXT://[::1]:9092"]
    assert (first["node.id"], first["kwire.workers"]) == (7, 2)


def test_others_take_what_follows():
    given = {
        "log_dirs": "/a,/b",
        "node_id": "7",
        "listeners": "A://[::1]:9092,B://:9100",
        "listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT",
        "advertised_listeners": "B://kafka.example:443",
        "kwire_http_listen": "*:8080",
    }
    third = _of(3, **given)[2]
    assert third["log.dirs"] == ["/a/worker.3"]
    assert third["listeners"] == ["A://[::1]:9094", "B://:9102"]
    assert third["advertised.listeners"] == ["B://kafka.example:445"]
    assert third["kwire.http.listen"] == "*:8082"
    assert (third["node.id"], third["broker.id"], third["kwire.workers"]) == (9, 9, 3)


@pytest.mark.parametrize(
    ("cordoned", "expected"), [("/a", ["*"]), ("/b", []), ("*", ["*"]), ("", [])]
)
def test_others_are_cordoned_with_the_directory_that_has_theirs(cordoned, expected):
    first, second = _of(2, log_dirs="/a,/b", cordoned_log_dirs=cordoned)
    assert first.given.get("cordoned.log.dirs") == cordoned
    assert second["cordoned.log.dirs"] == expected


def test_a_free_port_is_one_for_each():
    assert _of(2, listeners="PLAINTEXT://:0", kwire_http_listen="127.0.0.1:0")[1]["listeners"] == [
        "PLAINTEXT://:0"
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {
                "listeners": "A://:9092,B://:9093",
                "listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT",
            },
            "B of worker 1 and A of worker 2 would both need port 9093",
        ),
        ({"listeners": "PLAINTEXT://:65535"}, "worker 2 would need port 65536"),
        ({"kwire_http_listen": ":9093", "listeners": "PLAINTEXT://:9092"}, "port 9093"),
    ],
)
def test_ports_that_do_not_fit_are_an_error(given, told):
    with pytest.raises(ConfigError, match=told):
        _of(2, **given)


def test_etcd_and_workers_exclude_each_other():
    with pytest.raises(ConfigError, match=r"kwire\.workers"):
        BrokerConfig.load({"kwire.workers": "2", "kwire.metadata.store": "etcd://h"})


def test_a_lock_is_free_when_all_that_inherited_it_have_ended(tmp_path):
    """Also the lock of a separate directory of the metadata."""
    given = {"log.dirs": str(tmp_path / "a"), "metadata.log.dir": str(tmp_path / "m")}
    config = BrokerConfig.load(given)
    locks = lock_directories(config)
    assert {path.parent.name for path in locks} == {"a", "m"}
    disk = InheritedLocks(locks)
    inherited = [disk.lock(path) for path in locks]
    assert [disk.name_of_lock(fd) for fd in inherited] == [
        disk.name_of_lock(fd) for fd in locks.values()
    ]
    with pytest.raises(WorkersError, match=r"/a is in use by another process"):
        lock_directories(config, patience_s=0)
    for fd in (*locks.values(), *inherited):
        os.close(fd)
    for fd in lock_directories(config).values():
        os.close(fd)
    own = disk.lock(tmp_path / "other")  # all other locks are a worker's own
    with pytest.raises(BlockingIOError):
        Disk().lock(tmp_path / "other")
    os.close(own)


def test_partitions_without_metadata_are_not_put_aside(tmp_path):
    """A broker that is alone takes them over."""
    (tmp_path / "t-0").mkdir()
    config = BrokerConfig.load({"log.dirs": str(tmp_path)})
    with pytest.raises(WorkersError, match=r"start kwire once without --workers"):
        trio.run(open_metadata, config, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["t-0"]


def test_the_option_takes_a_number_or_auto():
    """``auto`` is what the setting says with 0: one for each core, within the limit."""
    assert serve.workers_of("4") == "4"
    assert serve.workers_of("auto") == "0"
    assert 1 <= serve.cores() <= serve.MOST_WORKERS
    BrokerConfig.load({"kwire.workers": str(serve.MOST_WORKERS)})
    with pytest.raises(ConfigError):
        BrokerConfig.load({"kwire.workers": str(serve.MOST_WORKERS + 1)})
    for wrong in ("0", "-1", "two", ""):
        with pytest.raises(serve.UsageError, match=r"write a number from 1 on, or auto"):
            serve.workers_of(wrong)

"""One damaged small file costs at most its partition, and one line names it; never the start.

A power cut leaves a file empty, full of NULs or cut. A broken disk leaves anything.
"""

import shutil

import pytest

from kwire.log.data_directory import LogDirectoryError
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from tests.log.conftest import NOW_MS, LogTools
from tests.support.log_state import leader_epochs

TOPIC_ID = bytes([1] * 16)
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=100)
RECORDS = 200

FILES = {
    ".kafka_cleanshutdown",
    "kwire-boot-id",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "t-0/00000000000000000000.index",
    "t-0/00000000000000000000.timeindex",
    "t-0/00000000000000000000.txnindex",
    "t-0/00000000000000000203.snapshot",
    "t-0/leader-epoch-checkpoint",
    "t-0/partition.metadata",
}
DAMAGES = {
    "empty": lambda content: b"",
    "NULs": lambda content: bytes(len(content)),
    "cut": lambda content: content[: len(content) // 2],
    "last byte lost": lambda content: content[:-1],
    "garbage": lambda content: bytes((37 * n + 200) % 256 for n in range(len(content))),
}
NOT_READ = {".kafka_cleanshutdown", "kwire-boot-id"}
"""Files whose content says nothing that a single broker needs."""
CASES = [
    (name, damage)
    for name in sorted(FILES)
    for damage in DAMAGES
    if (name[-8:], damage) != ("txnindex", "empty")  # Kafka leaves empty ones too
]


def open_manager(root, *names):
    """A broker's logs in these data directories."""
    return LogManager.open(
        [root / name for name in names or ("data",)],
        node_id=1,
        now_ms=NOW_MS,
        disk=Disk(),
        default_config=CONFIG,
    )


def state(manager):
    """What clients see of both partitions."""
    tools = LogTools(manager.directories[0])
    return {
        index: (
            log.log_start_offset,
            tools.values(log),
            log.segments.aborted_transactions(0, log.log_end_offset),
            leader_epochs(log),
        )
        for index in (0, 1)
        for log in [manager.get_or_create("t", index, TOPIC_ID, CONFIG, NOW_MS)]
    }


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A data directory after a clean stop, and what was in it."""
    root = tmp_path_factory.mktemp("stopped")
    tools, manager = LogTools(root), open_manager(root)
    for index in (0, 1):
        log = manager.get_or_create("t", index, TOPIC_ID, CONFIG, NOW_MS, epoch=0)
        tools.append(log, b"aborted", producer=(7, 0, 0), transactional=True)
        tools.append_marker(log, tools.marker(7, 0, commit=False))
        for number in range(RECORDS):
            tools.append(log, b"%d" % number)
        log.roll(NOW_MS)
        tools.append(log, b"last")
    before = state(manager)
    manager.note_boot()
    manager.close(NOW_MS)
    (root / "data" / "log-start-offset-checkpoint").write_text("0\n0\n")
    return root / "data", before


@pytest.fixture
def data(stopped, tmp_path):
    """A copy of it."""
    shutil.copytree(stopped[0], tmp_path / "data")
    return tmp_path / "data"


@pytest.mark.parametrize(("name", "damage"), CASES)
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_nothing_is_lost_by_a_damaged_file(data, stopped, caplog, name, damage, is_clean):
    """Neither its partition's records, epochs and transactions, nor another partition's."""
    if not is_clean:
        (data / ".kafka_cleanshutdown").unlink()
        (data / "recovery-point-offset-checkpoint").unlink()
    path = data / name
    if path.exists():
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    manager = open_manager(data.parent)
    assert state(manager) == stopped[1]
    assert manager.logs["t", 0].topic_id == TOPIC_ID
    manager.close(NOW_MS)
    told = [line for line in caplog.messages if path.stem in line]
    is_short = path.suffix == ".index" and damage == "cut"  # of use all the same
    assert told or name in NOT_READ or is_short or not is_clean
    assert len(told) <= 1
    caplog.clear()
    open_manager(data.parent).close(NOW_MS)
    assert not caplog.messages


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "last byte lost"])
def test_a_damaged_identity_names_the_file_and_the_remedy(data, damage):
    """The broker may be another's: a person decides. The remedy is one."""
    path = data / "meta.properties"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(LogDirectoryError) as refused:
        open_manager(data.parent)
    assert f"{path} is broken" in str(refused.value)
    assert "remove it" in str(refused.value)
    path.unlink()
    open_manager(data.parent).close(NOW_MS)


def test_a_damaged_identity_costs_one_directory_of_several(data, caplog):
    """The others serve."""
    open_manager(data.parent, "other").close(NOW_MS)
    (data / "meta.properties").write_bytes(b"")
    manager = open_manager(data.parent, "data", "other")
    assert list(manager.failures) == [data]
    assert f"{data / 'meta.properties'} is broken" in caplog.text
    manager.close(NOW_MS)

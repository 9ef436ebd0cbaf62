"""``kwire mend-log``: what is damaged goes, everything else stays, coordinators load again."""

import logging
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from kwire.broker.groups import LoadedCoordinator
from kwire.broker.topic_auto_creation import create_if_missing
from kwire.cli import main
from kwire.coordinator.effects import Effects
from kwire.coordinator.records import OffsetCommitValue, offset_commit
from kwire.coordinator.transaction.state import TransactionState
from kwire.errors import KafkaError
from kwire.log.log_repair import find_damage
from kwire.record.batch import RecordBatch
from kwire.record.records import BatchBuilder
from kwire.testing.waiting import until
from tests.support.in_process import RunningServer, running_server
from tests.support.raw_producer import RawProducer

LEDGER, TOPIC = "ledger", "orders"
OFFSETS, LOST, KEPT = "__consumer_offsets-0", "lost", "kept"
SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
FIRST = f"{0:020d}.log"


def commit(server: RunningServer, group_id: str, offset: int) -> None:
    """Write the offset of a group, in a batch of its own."""
    effects = Effects()
    value = OffsetCommitValue(offset=offset, commit_timestamp=server.broker.now_ms())
    effects.records.append(offset_commit(group_id, TOPIC, 0, value))
    server.broker.groups.coordinator(group_id).carry_out(effects)


def coordinator(server: RunningServer) -> LoadedCoordinator | None:
    """The one coordinator of groups, None while it isn't there."""
    try:
        return server.broker.groups.coordinator("any")
    except KafkaError:
        return None


def committed(server: RunningServer, group_id: str) -> int | None:
    """The offset of a group, None where it has none."""
    home = coordinator(server)
    assert home is not None
    found = home.coordinator.offsets.of(group_id).get(TOPIC, 0)
    return None if found is None else found.offset


def times(directory: Path) -> dict[Path, int]:
    """When each file was written last."""
    return {path: path.stat().st_mtime_ns for path in directory.rglob("*") if path.is_file()}


def state(server: RunningServer) -> TransactionState | None:
    """The state of the transaction."""
    known = server.broker.transactions.of(LEDGER).coordinator.get(LEDGER)
    return known and known.state


def is_loaded(server: RunningServer) -> bool:
    """Whether the coordinator of the transaction has loaded its partition."""
    try:
        server.broker.transactions.of(LEDGER)
    except KafkaError:
        return False
    return True


async def test_a_transaction_ends_after_its_offsets_partition_was_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log says which file is damaged and what to do; that is done, and everything goes on."""
    async with running_server(tmp_path, SETTINGS) as server:
        await server.broker.groups.ensure_topic()
        commit(server, LOST, 5)
        commit(server, KEPT, 7)
        await create_if_missing(server.broker, TOPIC)
        producer = RawProducer(await server.connect(), LEDGER)
        await producer.init()
        await producer.commit_offset("copied", TOPIC, 0, 9)
        await producer.client.aclose()
    file = tmp_path / OFFSETS / FIRST
    content = bytearray(file.read_bytes())
    content[content.index(LOST.encode())] ^= 1
    file.write_bytes(content)
    with caplog.at_level(logging.ERROR):
        async with running_server(tmp_path, SETTINGS) as server:
            producer.client = await server.connect()
            await until(lambda: is_loaded(server))
            await producer.end(committed=True)
            assert state(server) is TransactionState.PREPARE_COMMIT
            assert coordinator(server) is None
            await producer.client.aclose()
    [said] = [r.getMessage() for r in caplog.records if "damaged" in r.getMessage()]
    assert f"in {file};" in said
    assert f"'kwire mend-log {file.parent}'" in said
    assert main(["mend-log", str(file.parent)]) == 0
    assert f"{file}: " in capsys.readouterr().out
    assert (tmp_path / f"{OFFSETS}.{FIRST}.damaged").read_bytes() == content
    async with running_server(tmp_path, SETTINGS) as server:
        await until(lambda: coordinator(server) is not None and is_loaded(server))
        await until(lambda: state(server) is TransactionState.COMPLETE_COMMIT)
        found = [committed(server, group) for group in (LOST, KEPT, "copied")]
        assert found == [None, 7, 9]
        commit(server, LOST, 6)
        assert committed(server, LOST) == 6


async def test_a_partition_in_use_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """While a broker runs nothing is changed, and the reason is told."""
    async with running_server(tmp_path, SETTINGS) as server:
        await server.broker.groups.ensure_topic()
        assert await trio.to_thread.run_sync(main, ["mend-log", str(tmp_path / OFFSETS)]) == 1
    assert "in use by another process" in capsys.readouterr().err


async def test_a_sound_partition_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without damage no file is written."""
    async with running_server(tmp_path, SETTINGS) as server:
        await server.broker.groups.ensure_topic()
        commit(server, KEPT, 7)
    before = times(tmp_path)
    assert main(["mend-log", str(tmp_path / OFFSETS)]) == 0
    assert "no damage found" in capsys.readouterr().out
    assert times(tmp_path) == before


@pytest.mark.parametrize("name", ["nowhere-0", "no-partition", "a file-1"])
def test_what_is_no_partition_is_refused(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says so, and nothing is created."""
    (tmp_path / "a file-1").touch()
    (tmp_path / "no-partition").mkdir()
    assert main(["mend-log", str(tmp_path / name)]) == 1
    assert "is not the directory of a partition" in capsys.readouterr().err
    assert len(list(tmp_path.iterdir())) == 2


def batches(count: int) -> list[bytes]:
    """Batches that follow each other."""
    made = []
    for number in range(count):
        builder = BatchBuilder()
        builder.add(1, b"key", b"value %d" % number)
        batch = builder.build()
        batch[:8] = number.to_bytes(8)
        made.append(bytes(batch))
    return made


@given(damaged=st.sets(st.integers(0, 5)), at=st.integers(0, 70), change=st.integers(1, 255))
def test_all_sound_batches_stay(
    tmp_path_factory: pytest.TempPathFactory, damaged: set[int], at: int, change: int
) -> None:
    """Wherever a batch is damaged, its length included, the ones before and after it are kept."""
    path = tmp_path_factory.mktemp("damage") / FIRST
    if at < 8:  # of two wrong base offsets in a row, which nothing covers, one may look right
        damaged = set(sorted(damaged)[:1])
    content = [bytearray(batch) for batch in batches(6)]
    for number in damaged:
        content[number][at] ^= change
    path.write_bytes(b"".join(content))
    left_out = find_damage(path)
    kept = bytearray(path.read_bytes())
    for damage in reversed(left_out):
        del kept[damage.position : damage.position + damage.size_bytes]
    position, offsets = 0, []
    while position < len(kept):
        batch = RecordBatch(kept, position)
        batch.verify_crc()
        offsets.append(batch.base_offset)
        position += batch.size_bytes
    assert offsets == sorted(offsets)
    assert set(range(6)) - damaged <= set(offsets)

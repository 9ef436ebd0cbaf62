"""``kwire dump-log`` on the directory that Apache Kafka wrote, on damaged files and on anything."""

import errno
import json
import shutil
import struct
import tarfile
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kwire.cli import main

DATA = Path(__file__).parent.parent / "data"
FIRST = f"{0:020d}"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The directory as Kafka left it."""
    directory = tmp_path_factory.mktemp("kafka")
    with tarfile.open(DATA / "kafka-4.4-data-dir.tar.gz") as packed:
        packed.extractall(directory, filter="data")
    return directory / "logs"


@pytest.fixture
def dump(capsys):
    """Runs the command: (exit code, lines, what it said on stderr)."""

    def run(*arguments):
        code = main(["dump-log", *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err

    return run


def test_everything_that_kafka_wrote(archive, dump):
    """Every file of every partition is read to its end, and nothing is wrong with it."""
    directories = [path for path in sorted(archive.iterdir()) if path.is_dir()]
    code, lines, said = dump("--deep-iteration", *directories)
    assert (code, said.count("invalid")) == (0, 0)
    assert sum(line.startswith("| ") for line in lines) > 10_000
    metadata = archive / "__cluster_metadata-0"
    partitions = [path for path in directories if path != metadata]
    assert dump("--index-sanity-check", *partitions)[0] == 0
    # Kafka 4.4 leaves its metadata's indexes as long as it made them, and its tool says the same.
    code, _, said = dump("--index-sanity-check", metadata)
    assert (code, said.count("failed")) == (1, 1)
    assert f"{FIRST}.timeindex failed sanity check" in said
    assert dump("--verify-index-only", *directories)[0] == 0


def test_the_words_are_those_of_kafkas_tool(archive, dump):
    """One line of each kind, as DumpLogSegments prints it."""
    txn = archive / "txn-0"
    _, lines, _ = dump("--print-data-log", txn / f"{FIRST}.log")
    batch = (
        "baseOffset: 0 lastOffset: 39 count: 40 baseSequence: 0 lastSequence: 39 producerId: 1 "
        "producerEpoch: 0 partitionLeaderEpoch: 0 isTransactional: true isControl: false "
        "deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1700000000039 size: 571 "
        "magic: 2 compresscodec: none crc: 790381939 isvalid: true"
    )
    record = (
        "| offset: 0 CreateTime: 1700000000000 keySize: 2 valueSize: 3 sequence: 0 "
        "headerKeys: [] key: r0 payload: 0-0"
    )
    assert lines[:4] == [
        f"Dumping {txn / FIRST}.log",
        "Log starting offset: 0",
        batch,
        record,
    ]
    _, lines, _ = dump(*sorted(txn.glob("*.*index")), txn / f"{502:020d}.snapshot")
    assert lines[1] == f"{txn / FIRST}.index is empty."
    assert "timestamp: 1700000000039 offset: 39" in lines
    assert "version: 0 producerId: 1 firstOffset: 82 lastOffset: 122 lastStableOffset: 123" in lines
    assert lines[-1] == (
        "producerId: 2 producerEpoch: 0 coordinatorEpoch: -1 "
        "currentTxnFirstOffset: OptionalLong[492] lastTimestamp: 1700000100008 firstSequence: 0 "
        "lastSequence: 9 lastOffset: 501 offsetDelta: 9 timestamp: 1700000100008"
    )


def test_records_of_internal_topics(archive, dump, tmp_path):
    """Offsets, transactions and metadata are shown by their fields.

    Until 4.3 there was also a snapshot ``bootstrap.checkpoint`` beside the partitions.
    """
    _, lines, _ = dump("--offsets-decoder", archive / "__consumer_offsets-0")
    assert any('"group":"classic-group","topic":"plain","partition":1' in line for line in lines)
    assert any('"assignedPartitions":[{"topic":"plain","partitions":[0,1]}]' in x for x in lines)
    _, lines, _ = dump("--offsets-decoder", archive / "__consumer_offsets-1")
    assert any('"groupId":"next-gen-group"' in line and "<DELETE>" in line for line in lines)
    _, lines, _ = dump("--transaction-log-decoder", archive / "__transaction_state-0")
    shown = [line for line in lines if '"transactionalId":"tx-a"' in line]
    assert any('"transactionStatus":"CompleteCommit"' in line for line in shown)
    metadata = archive / "__cluster_metadata-0"
    bootstrap = shutil.copy(
        metadata / f"{FIRST}-{0:010d}.checkpoint", tmp_path / "bootstrap.checkpoint"
    )
    _, lines, _ = dump("--cluster-metadata-decoder", metadata, bootstrap)
    assert any('"type":"TOPIC_RECORD"' in line and '"codec-zstd"' in line for line in lines)
    assert any('KRaftVoters {"version":0,"voters":[{"voterId":1' in line for line in lines)
    assert any('"metadata.version","featureLevel":33' in line for line in lines)  # 30 in 4.3
    assert "Snapshot end offset: 0, epoch: 0" in lines
    assert not any("skipping" in line for line in lines)


def test_a_decoder_that_does_not_fit(archive, dump):
    """Records of another topic are told one by one, and the dump goes on."""
    segment = archive / "codec-gzip-0" / f"{FIRST}.log"
    for decoder in ("offsets", "transaction-log", "share-group-state", "cluster-metadata"):
        code, lines, _ = dump(f"--{decoder}-decoder", segment)
        assert code == 0
        assert sum("skipping" in line for line in lines) == 690


def test_small_files(archive, dump):
    """What Kafka's tool passes over: checkpoints, and whose a directory is."""
    names = ("codec-gzip-0/leader-epoch-checkpoint", "codec-gzip-0/partition.metadata")
    names += ("recovery-point-offset-checkpoint", "meta.properties")
    code, lines, _ = dump(*(archive / name for name in names))
    assert code == 0
    assert "epoch: 0 startOffset: 0" in lines
    assert "topic: codec-gzip partition: 0 offset: 1500" in lines
    assert any(line.startswith("version: 0 topic_id: ") for line in lines)
    assert any("cluster.id: MkU3OEVBNTcwNTJENDM2Qg" in line for line in lines)


def test_json(archive, dump):
    """An object a line, with the fields of the text; bytes that are no text in base64."""
    _, lines, _ = dump("--json", "--print-data-log", archive / "txn-0")
    items = [json.loads(line) for line in lines]
    kinds = {item["type"] for item in items}
    assert kinds >= {"file", "log", "batch", "record", "timeIndexEntry", "abortedTransaction"}
    record = next(item for item in items if item["type"] == "record")
    assert (record["offset"], record["key"], record["payload"]) == (0, "r0", "0-0")
    marker = next(item for item in items if item.get("control"))
    assert marker["control"] == {"endTxnMarker": "COMMIT", "coordinatorEpoch": 0}


def test_part_of_a_segment(archive, dump):
    """--max-bytes ends at the last whole batch, and what follows is not called invalid."""
    segment = archive / "codec-gzip-0" / f"{FIRST}.log"
    code, lines, _ = dump("--max-bytes", 2000, segment)
    assert code == 0
    assert 3 <= len(lines) < 20
    _, lines, _ = dump("--print-data-log", "--skip-record-metadata", segment)
    assert any(line.startswith("| key: ") for line in lines)
    assert not any(line.startswith("| offset: ") for line in lines)


def time_index(last_ms, last_offset):
    """Replaces a time index by one whose first entry is at 99 ms, and whose last one is this."""
    entries = struct.pack(">qiqi", 99, 3, last_ms, last_offset)
    return lambda _: entries


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        (f"{FIRST}.log", lambda d: d[:-5], "bytes at the end are not a complete batch"),
        (f"{FIRST}.log", lambda d: d[:300] + b"?" + d[301:], "fails its checksum"),
        (f"{FIRST}.log", lambda d: b"?" * 200, "not a complete batch"),
        (f"{FIRST}.log", lambda d: d[:16] + b"\1" + d[17:], "message format 1 was removed"),
        (f"{FIRST}.index", lambda d: d[:-1], "failed sanity check"),
        (f"{FIRST}.index", lambda d: d[:7] + bytes([d[7] ^ 1]) + d[8:], "Mismatches in"),
        (f"{FIRST}.timeindex", time_index(50, 7), "failed sanity check"),
        (f"{FIRST}.timeindex", time_index(99, -1), "failed sanity check"),
        (f"{FIRST}.timeindex", lambda d: d[:7] + bytes([d[7] ^ 1]) + d[8:], "timestamp mismatch"),
        (f"{1500:020d}.snapshot", lambda d: d[:-1] + b"?", "fails its checksum"),
        (f"{1500:020d}.snapshot", lambda d: b"", "too few"),
        ("leader-epoch-checkpoint", lambda d: b"0\n7\n0 0\n", "number of entries"),
        ("leader-epoch-checkpoint", lambda d: b"0\n1\n0 x\n", "an invalid entry"),
        ("partition.metadata", lambda d: b"\xff", "is not text"),
    ],
)
def test_what_is_wrong_is_told(archive, dump, tmp_path, name, change, problem):
    """In words, without a traceback, with exit code 1."""
    path = shutil.copytree(archive / "codec-none-0", tmp_path / "codec-none-0") / name
    path.write_bytes(change(path.read_bytes()))
    options = ["--index-sanity-check"] if problem == "failed sanity check" else []
    code, _, said = dump("--deep-iteration", *options, path)
    assert code == 1
    assert problem in said
    assert str(path) in said


def test_what_is_no_file_of_a_log(dump, tmp_path):
    """A missing file, a wrong name and a wrong kind are one line each; the others are dumped."""
    (tmp_path / "notes.log").touch()
    (tmp_path / "notes.txt").touch()
    good = tmp_path / "partition.metadata"
    good.write_text("version: 0\ntopic_id: x")
    missing = tmp_path / f"{FIRST}.log"
    nothing = tmp_path / "orders-7"
    small = [tmp_path / "leader-epoch-checkpoint", tmp_path / f"{FIRST}.snapshot"]
    odd = [tmp_path / "notes.log", tmp_path / "notes.txt"]
    code, lines, said = dump(missing, nothing, *small, *odd, good)
    assert code == 1
    assert said.splitlines() == [
        f"kwire: {missing} does not exist",
        f"kwire: {nothing} does not exist",
        *(f"kwire: {path} does not exist" for path in small),
        f"kwire: the name of {tmp_path / 'notes.log'} does not begin with an offset",
        f"kwire: {tmp_path / 'notes.txt'} is not a file of a log",
    ]
    assert "version: 0 topic_id: x" in lines


@given(st.binary(max_size=300), st.sampled_from(["log", "index", "timeindex", "txnindex"]))
def test_any_bytes_at_all(tmp_path_factory, content, kind):
    """Whatever is in a file, the dump ends in an exit code."""
    directory = tmp_path_factory.mktemp("any")
    for suffix in {"log", "index", kind}:
        (directory / f"{FIRST}.{suffix}").write_bytes(content)
    assert main(["dump-log", "--print-data-log", str(directory / f"{FIRST}.{kind}")]) in (0, 1)


def test_a_directory_that_cannot_be_read(tmp_path, dump, monkeypatch):
    """One line, and what else was named is dumped all the same."""
    inner = Path.iterdir

    def iterdir(path):
        if path.name == "secret":
            raise PermissionError(errno.EACCES, "Permission denied")
        return inner(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    (tmp_path / "secret").mkdir()
    (tmp_path / "meta.properties").write_text("version=1\n", encoding="utf-8")
    code, lines, said = dump(tmp_path / "secret", tmp_path)
    assert (code, said) == (1, f"kwire: cannot read {tmp_path / 'secret'}: Permission denied\n")
    assert f"Dumping {tmp_path / 'meta.properties'}" in lines


def test_a_producer_whose_last_batch_is_at_offset_0(dump, tmp_path):
    """It has a last batch; one with offset -1 has none."""
    rows = b"".join(struct.pack(">qhiqiqiq", 1, 0, 0, last, 0, 0, 0, -1) for last in (0, -1))
    counted = struct.pack(">i", 2) + rows
    path = tmp_path / f"{1:020d}.snapshot"
    path.write_bytes(struct.pack(">hI", 1, crc32c(counted)) + counted)
    code, lines, _ = dump(path)
    assert code == 0
    assert ["firstSequence: 0" in line for line in lines[1:]] == [True, False]

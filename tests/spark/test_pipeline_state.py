"""What a pipeline keeps beside Spark's checkpoint, and what it reads from it."""

import json
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest

from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.batch_counts import MOST_REASONS, Counts
from kwire.spark.checkpoint import BadCheckpoint, Checkpoint
from kwire.spark.file_names import FileName, parse
from kwire.spark.incarnations import Incarnations
from kwire.spark.lost_records import DataLost, LostTable, deleted, gone_back, recreated
from kwire.spark.progress import Progress, fingerprint, read_status
from kwire.spark.settings import PipelineSettings, SinkSettings, Source
from kwire.spark.sinks.claims import Claims, CoveredBefore, merged, without
from kwire.spark.storage import LocalStorage, TwoCopies, storage_at
from kwire.spark.table_files import TableFiles


def write_checkpoint(directory: Path, *ends: dict[str, dict[str, int]], finished: int) -> None:
    """A checkpoint as Spark writes it: where batch 0 begins, and where each batch ends."""
    for name in ("offsets", "commits", "sources/0"):
        (directory / name).mkdir(parents=True)
    (directory / "metadata").write_text('{"id": "the-id"}')
    (directory / "sources/0/0").write_text(f"\0v1\n{json.dumps(ends[0])}")
    for number, end in enumerate(ends[1:]):
        (directory / f"offsets/{number}").write_text(f'v1\n{{"a": 1}}\n{json.dumps(end)}')
        (directory / f"offsets/.{number}.crc").write_text("")
    for number in range(finished + 1):
        (directory / f"commits/{number}").write_text("v1\n{}")


def test_the_ranges_of_batches(tmp_path: Path) -> None:
    """From one end to the next; a partition that was added begins at 0."""
    ends = ({"a": {"0": 5}}, {"a": {"0": 7}}, {"a": {"0": 7, "1": 3}}, {"a": {"0": 2, "1": 3}})
    write_checkpoint(tmp_path, *ends, finished=1)
    checkpoint = Checkpoint(LocalStorage(tmp_path))
    assert checkpoint.query_id() == "the-id"
    assert checkpoint.ranges(0) == [OffsetRange("a", 0, 5, 7)]
    assert checkpoint.ranges(1) == [OffsetRange("a", 1, 0, 3)]
    assert checkpoint.ranges(2) == [OffsetRange("a", 0, 7, 2)]
    assert (checkpoint.planned(), checkpoint.finished(), checkpoint.pending()) == (2, 1, 2)
    assert checkpoint.next_offsets() == {("a", 0): 7, ("a", 1): 3}


def test_a_checkpoint_before_its_first_start(tmp_path: Path) -> None:
    """Nothing is known, and nothing is wrong."""
    checkpoint = Checkpoint(LocalStorage(tmp_path))
    assert (checkpoint.query_id(), checkpoint.pending()) == ("", None)
    assert checkpoint.next_offsets() == {}


def test_a_checkpoint_of_another_version(tmp_path: Path) -> None:
    """It isn't guessed at."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/0").write_text("v2\n{}\n{}")
    with pytest.raises(BadCheckpoint, match="version v2, not v1"):
        Checkpoint(LocalStorage(tmp_path)).ranges(0)


def test_topics_created_again(tmp_path: Path) -> None:
    """Known by their ids, over restarts; each new epoch has a checkpoint of its own."""
    topics = Incarnations(LocalStorage(tmp_path))
    topics.note({"a": "id-1", "b": "id-2"})
    assert topics.directory == "spark-0"
    again = Incarnations(LocalStorage(tmp_path))
    assert again.recreated({"a": "id-1", "b": "id-3", "c": "id-4"}) == ["b"]
    again.begin_epoch({"b": "id-3"}, '{"b": {"0": -2}}')
    third = Incarnations(LocalStorage(tmp_path))
    assert third.recreated({"a": "id-1", "b": "id-3"}) == []
    assert (third.directory, third.starting) == ("spark-1", '{"b": {"0": -2}}')
    assert (third.of("a"), third.of("b")) == (0, 1)


def test_what_is_lost() -> None:
    """Exactly the offsets that a batch should have read and that are gone."""
    ranges = [OffsetRange("a", 0, 10, 20), OffsetRange("a", 1, 10, 20), OffsetRange("b", 0, 9, 5)]
    starts = {("a", 0): 15, ("a", 1): 10, ("b", 0): 99}
    assert [(one.first, one.end) for one in deleted(ranges, starts)] == [(10, 15)]
    assert [(one.first, one.end) for one in deleted(ranges, {("a", 1): 99})] == [(10, 20)]
    assert [(one.topic, one.first, one.end) for one in gone_back(ranges)] == [("b", 5, 9)]
    gone = recreated(["a"], {("a", 0): 7, ("b", 0): 1, ("a", 1): 3}, {("a", 0): 9})
    assert [(one.partition, one.first, one.end) for one in gone] == [(0, 7, 9), (1, 3, 3)]


def test_the_modes_of_loss(tmp_path: Path) -> None:
    """One stops with a line, the other writes each range once."""
    rows = deleted([OffsetRange("a", 0, 10, 20)], {("a", 0): 15})
    with pytest.raises(DataLost, match="a-0: offsets 10 to 14 are deleted; set source"):
        LostTable(LocalStorage(tmp_path), stops=True).record(rows)
    assert list(tmp_path.iterdir()) == []
    table = LostTable(LocalStorage(tmp_path), stops=False)
    assert table.record(rows) == table.record(rows) == 5
    [file] = tmp_path.iterdir()
    row = json.loads(file.read_text())
    assert (row["topic"], row["first"], row["end"], row["reason"]) == ("a", 10, 15, "deleted")


def test_claims_grow_with_gaps_only(tmp_path: Path) -> None:
    """Adjacent ranges are one; a batch that runs again changes nothing."""
    claims = Claims(LocalStorage(tmp_path))
    for first in (0, 10, 10, 20):
        claims.add(Batch("p", "q", first, (OffsetRange("a", 0, first, first + 10),)))
    claims.add(Batch("p", "q", 9, (OffsetRange("a", 0, 50, 60), OffsetRange("a", 0, 0, 5, 1))))
    again = Claims(LocalStorage(tmp_path))
    expected = [
        OffsetRange("a", 0, 0, 30),
        OffsetRange("a", 0, 50, 60),
        OffsetRange("a", 0, 0, 5, 1),
    ]
    assert again.ranges() == claims.ranges() == expected
    assert again.newest == (OffsetRange("a", 0, 50, 60), OffsetRange("a", 0, 0, 5, 1))


def test_a_new_checkpoint_is_refused_where_files_are(tmp_path: Path) -> None:
    """Its ranges are cut elsewhere, so its rows would be there twice; the old one goes on."""
    storage = LocalStorage(tmp_path)
    Claims(storage).add(Batch("p", "old", 0, (OffsetRange("a", 0, 0, 10),)))
    with pytest.raises(CoveredBefore, match="offsets 0 to 9 of a-0 already, by another checkpoint"):
        Claims(storage).check(Batch("p", "new", 0, (OffsetRange("a", 0, 5, 100),)))
    for fine in (
        Batch("p", "old", 0, (OffsetRange("a", 0, 0, 10),)),
        Batch("p", "new", 0, (OffsetRange("a", 0, 10, 20), OffsetRange("a", 0, 0, 5, 1))),
        Batch("other", "new", 0, (OffsetRange("b", 0, 0, 10),)),
    ):
        Claims(storage).check(fine)
    Claims(storage).add(Batch("p", "new", 0, (OffsetRange("a", 0, 10, 20),)))
    Claims(storage).check(Batch("p", "new", 0, (OffsetRange("a", 0, 10, 20),)))


def test_record_index() -> None:
    """Merged, and what others don't cover."""
    assert merged([(5, 7), (0, 2), (2, 3), (6, 9)]) == [(0, 3), (5, 9)]
    assert list(without((0, 10), [(2, 4), (6, 12)])) == [(0, 2), (4, 6)]
    assert list(without((0, 10), [])) == [(0, 10)]
    assert list(without((3, 5), [(0, 10)])) == []


def test_names_of_another_incarnation_and_of_compressed_json() -> None:
    """They are read as they are written."""
    for name in (
        FileName("orders", 3, 0, 10, 1, "parquet", 2),
        FileName("a.b-c", 0, 5, 6, None, "json.gz"),
    ):
        assert parse(str(name)) == name


def test_a_small_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """Also while another process reads it; nothing is left beside it."""
    storage = storage_at(storage_at(f"{tmp_path}/a=b%20").url())
    assert storage.read("a/b") is None
    for content in (b"1", b"2"):
        storage.write("a/b", content)
        assert storage.read("a/b") == content
    assert list(storage.files("")) == ["a/b"]
    storage.delete("a")
    assert storage.names() == []
    with pytest.raises(ValueError, match="can't be read without Spark"):
        storage_at("s3a://bucket/checkpoint")


class _Killed(Exception):
    """Stands for the end of the process."""


class _ObjectStore(LocalStorage):
    """Replaces a file as s3a does, by deleting it first, and is killed before a step."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.steps_left = 1000

    def _step(self) -> None:
        if not self.steps_left:
            raise _Killed
        self.steps_left -= 1

    def write(self, name: str, content: bytes) -> None:
        """Delete the old file, then make the new one."""
        self._step()
        super().delete(name)
        self._step()
        super().write(name, content)

    def delete(self, name: str) -> None:
        """Delete a file."""
        self._step()
        super().delete(name)


@pytest.mark.parametrize("steps", range(5))
def test_a_small_file_of_an_object_store_is_never_gone(tmp_path: Path, steps: int) -> None:
    """Wherever a kill comes: the topics that a pipeline has read are the old or the new ones."""
    store = _ObjectStore(tmp_path)
    storage = TwoCopies(store)
    storage.write("a/topics.json", b"old")
    assert (storage.names("a"), list(storage.files(""))) == (["topics.json"], ["a/topics.json"])
    store.steps_left = steps
    with suppress(_Killed):
        storage.write("a/topics.json", b"new")
    store.steps_left = 1000
    assert storage.read("a/topics.json") == (b"old" if steps < 3 else b"new")
    assert storage.names("a") == ["topics.json"]
    storage.write("a/topics.json", b"newer")
    assert storage.read("a/topics.json") == b"newer"


@pytest.mark.parametrize("steps", range(3))
def test_a_deleted_small_file_has_no_copy(tmp_path: Path, steps: int) -> None:
    """It would count as the file."""
    store = _ObjectStore(tmp_path)
    storage = TwoCopies(store)
    storage.write("a/x", b"1")
    store.steps_left = steps
    with suppress(_Killed):
        storage.delete("a/x")
    store.steps_left = 1000
    assert storage.read("a/x") == (None if steps == 2 else b"1")


def test_status_is_read_by_another_process(tmp_path: Path) -> None:
    """Batches are added up, lag is what is left."""
    progress = Progress(LocalStorage(tmp_path), "p")
    progress.offsets({("a", 0): 5}, {("a", 0): 9})
    for number in (0, 1):
        progress.batch(number, Counts(3, 1, 100), 0.5)
    progress.lost(7)
    found = read_status(LocalStorage(tmp_path))
    assert found is not None
    assert (found.lag, found.records, found.dead_letters, found.value_bytes) == (4, 6, 2, 200)
    assert (found.batch_id, found.lost_offsets) == (1, 7)
    assert Progress(LocalStorage(tmp_path), "p").last_ends({("a", 0): 0, ("b", 0): 0}) == {
        ("a", 0): 9
    }


def test_the_newest_error_and_the_reasons_of_dead_letters_outlive_a_run(tmp_path: Path) -> None:
    """An error that is over is still the last one; other numbers are of the run."""
    progress = Progress(LocalStorage(tmp_path), "p")
    progress.set(error="KafkaError: away")
    progress.set(error="")
    progress.batch(0, Counts(3, 2, 100, {"value: it is no JSON": 2}), 0.5)
    progress.table(TableFiles(3, 2, 100, 1))
    progress.table(None)
    Progress(LocalStorage(tmp_path), "p").batch(0, Counts(9, 1, 100, {"key: odd": 1}), 0.5)
    found = read_status(LocalStorage(tmp_path))
    assert found is not None
    assert (found.error, found.last_error, found.records) == ("", "KafkaError: away", 9)
    assert found.dead_letters_by_reason == {"value: it is no JSON": 2, "key: odd": 1}
    assert found.last_error_at_s > 0
    assert (found.files, found.files_written) == (None, 0)


def test_reasons_are_bounded(tmp_path: Path) -> None:
    """A reason that quotes each record's value doesn't fill the file."""
    progress = Progress(LocalStorage(tmp_path), "p")
    for number in range(2 * MOST_REASONS):
        progress.batch(number, Counts(1, 1, 1, {f"value: {number}": 1}), 0.1)
    found = progress.status.dead_letters_by_reason
    assert len(found) == MOST_REASONS + 2
    assert sum(found.values()) == 2 * MOST_REASONS


def test_labels_of_metrics_are_bounded_too(tmp_path: Path) -> None:
    """Prometheus keeps each label that there ever was; it gets those of the file."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    progress = Progress(LocalStorage(tmp_path), "shop", address)
    try:
        for number in range(2 * MOST_REASONS):
            progress.batch(number, Counts(1, 1, 1, {f"value: {number}": 1}), 0.1)
        with urlopen(f"http://{address}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    finally:
        progress.close()
    start = "kwire_pipeline_dead_letters_by_reason_total{"
    found = [float(one.split()[-1]) for one in lines if one.startswith(start)]
    assert len(found) == MOST_REASONS + 2
    assert sum(found) == 2 * MOST_REASONS


def test_a_fingerprint_has_no_secret() -> None:
    """Whoever reads the file can't try passwords; other settings count."""
    jaas = 'required username="etl" password="%s";'
    source = Source("127.0.0.1:1", ("t",), client={"sasl.jaas.config": jaas % "one"})
    first = PipelineSettings("p", source, SinkSettings("parquet", "t"), "c")
    second = replace(first, source=replace(source, client={"sasl.jaas.config": jaas % "two"}))
    other = replace(first, source=replace(source, topics=("u",)))
    assert fingerprint(first) == fingerprint(second) != fingerprint(other)


def test_a_note_fits_into_the_metadata_of_an_offset(tmp_path: Path) -> None:
    """Kafka takes 4096 characters."""
    progress = Progress(LocalStorage(tmp_path), "p" * 249)
    reasons = {f"{number}{'ö' * 500}": 1 << 40 for number in range(9)}
    progress.batch(0, Counts(1 << 50, 9 << 40, 1, reasons), 0.1)
    progress.set(error="ü" * 5000)
    assert len(progress.note()) < 4096
    assert json.loads(progress.note())["kwire.pipeline"] == "p" * 249


def test_metrics_for_prometheus(tmp_path: Path) -> None:
    """Records, dead letters, lost offsets and batch times; the lag of each partition."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    progress = Progress(LocalStorage(tmp_path), "shop", address)
    try:
        progress.batch(0, Counts(10, 2, 300, {"value: odd": 2}), 0.5)
        progress.table(TableFiles(9, 7, 1000, 4))
        progress.table(TableFiles(8, 6, 1000, 5))
        progress.set(error="KafkaError: away")
        progress.offsets({("a-b", 1): 5}, {("a-b", 1): 9})
        progress.lost(3)
        with urlopen(f"http://{address}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    finally:
        progress.close()
    for line in (
        'kwire_pipeline_records_total{pipeline="shop"} 10.0',
        'kwire_pipeline_value_bytes_total{pipeline="shop"} 300.0',
        'kwire_pipeline_dead_letters_total{pipeline="shop"} 2.0',
        'kwire_pipeline_lost_offsets_total{pipeline="shop"} 3.0',
        'kwire_pipeline_batch_seconds_sum{pipeline="shop"} 0.5',
        'kwire_pipeline_dead_letters_by_reason_total{pipeline="shop",reason="value: odd"} 2.0',
        'kwire_pipeline_table_files{pipeline="shop"} 8.0',
        'kwire_pipeline_table_small_files{pipeline="shop"} 6.0',
        'kwire_pipeline_table_bytes{pipeline="shop"} 1000.0',
        'kwire_pipeline_files_written_total{pipeline="shop"} 5.0',
        'kwire_pipeline_errors_total{pipeline="shop"} 1.0',
        'kwire_pipeline_lag{partition="1",pipeline="shop",topic="a-b"} 4.0',
        'kwire_pipeline_next_offset{partition="1",pipeline="shop",topic="a-b"} 5.0',
    ):
        assert line in lines
    for name in ("records_per_second", "last_error_timestamp_seconds"):
        [line] = [one for one in lines if one.startswith(f"kwire_pipeline_{name}{{")]
        assert float(line.split()[1]) > 0

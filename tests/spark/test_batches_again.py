"""A batch that runs again after retention has deleted a part of it leaves its files as they are."""

# Private attributes: a sink writes its rows aside with Spark, which this one does without.

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.broker_view import BrokerView
from kwire.spark.incarnations import Incarnations
from kwire.spark.loss_detection import LossDetection
from kwire.spark.lost_records import DataLost, LostTable
from kwire.spark.progress import Progress
from kwire.spark.settings import SinkSettings, Source
from kwire.spark.sinks.claims import Claims
from kwire.spark.sinks.files import BY_TOPIC, FilesSink, by_batch, by_range
from kwire.spark.storage import LocalStorage

SOURCE = Source("127.0.0.1:1", ("orders",))
RANGE = OffsetRange("orders", 0, 0, 10)
BATCH = Batch("p", "q", 0, (RANGE,))
PLACE = f"{BY_TOPIC}=orders/__kwire_partition=0"


class Rows:
    """What a sink asks of rows before it writes them."""

    columns = (BY_TOPIC,)


class Sink(FilesSink):
    """A files sink that writes its content aside without Spark, in one file or several."""

    def __init__(self, path: Path, content: bytes, files: int = 1) -> None:
        super().__init__(SinkSettings("parquet", str(path)), SOURCE, "p")
        self._content = content
        self._files = files
        self.open(cast(Any, None))

    def _write_aside(self, rows: Any, aside: str, is_by_range: bool) -> None:
        for number in range(self._files):
            name = f"part-{number}.c000.snappy.parquet"
            self._aside.write(f"{aside}/{PLACE if is_by_range else ''}/{name}", self._content)
        self._aside.write(f"{aside}/_SUCCESS", b"")


def contents(path: Path) -> list[bytes]:
    """The content of all files that readers see."""
    found = [*path.glob("topic=*/*/*.parquet"), *path.glob("batch-*")]
    return [one.read_bytes() for one in sorted(found)]


def write(path: Path, content: bytes, batch: Batch, files: int = 1) -> None:
    """A run of a batch, by a driver of its own."""
    Sink(path, content, files).write_prepared(cast(Any, Rows()), batch)


@pytest.mark.parametrize("files", [1, 2])
def test_whole_files_stay_when_the_broker_has_less(tmp_path: Path, files: int) -> None:
    """Without the loss the second run replaces the first."""
    write(tmp_path / "table", b"whole", BATCH, files)
    write(tmp_path / "table", b"less", replace(BATCH, incomplete=frozenset([RANGE])), files)
    assert contents(tmp_path / "table") == [b"whole"] * files
    write(tmp_path / "table", b"again", BATCH, files)
    assert contents(tmp_path / "table") == [b"again"] * files


def test_what_is_left_is_written_where_there_is_no_file(tmp_path: Path) -> None:
    """The first run of a batch writes what the broker still has."""
    write(tmp_path / "table", b"less", replace(BATCH, incomplete=frozenset([RANGE])))
    assert contents(tmp_path / "table") == [b"less"]


def test_files_named_by_batch_stay_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are whole once the batch is noted."""
    monkeypatch.setattr(Rows, "columns", ())
    write(tmp_path / "table", b"whole", BATCH)
    write(tmp_path / "table", b"less", replace(BATCH, incomplete=frozenset([RANGE])))
    assert contents(tmp_path / "table") == [b"whole"]
    assert Claims(LocalStorage(tmp_path / "table")).has(RANGE)


class View:
    """A cluster with one topic, which changes between two questions."""

    def __init__(self) -> None:
        self.start = 0
        self.id = "id-1"

    def topics(self, names: Any) -> dict[str, tuple[str, int]]:
        return {"orders": (self.id, 1)} if self.id else {}

    def starts(self, partitions: Any) -> dict[tuple[str, int], int]:
        return dict.fromkeys(partitions, self.start)


def detection_of(tmp_path: Path, view: View, *, stops: bool) -> LossDetection:
    """A detection that asks a made-up cluster."""
    storage = LocalStorage(tmp_path)
    table = LostTable(LocalStorage(tmp_path / "lost"), stops=stops)
    return LossDetection(
        cast(BrokerView, view), Incarnations(storage), table, Progress(storage, "p")
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"start": 4}, "offsets 0 to 3 are perhaps deleted"),
        ({"id": "id-2"}, "offsets 0 to 9 are perhaps replaced: the topic was deleted or created"),
        ({"id": ""}, "offsets 0 to 9 are perhaps replaced"),
    ],
)
def test_what_is_lost_while_a_batch_is_read_stops_after_the_batch(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    """The range is in the table in either mode; the batch counts as written."""
    for stops in (True, False):
        view = View()
        detection = detection_of(tmp_path / str(stops), view, stops=stops)
        ranges = detection.check_before([RANGE], ())
        assert detection.incomplete(ranges) == frozenset()
        for name, value in change.items():
            setattr(view, name, value)
        detection.check_after(ranges)
        assert len(list((tmp_path / str(stops) / "lost").iterdir())) == 1
        assert (detection.late_loss is not None) == stops
        if stops:
            with pytest.raises(DataLost, match=reason):
                detection.check_before([RANGE], ())


def test_what_was_deleted_before_a_batch_is_known_to_the_sink(tmp_path: Path) -> None:
    """The range is incomplete; nothing is late."""
    view = View()
    view.start = 4
    detection = detection_of(tmp_path, view, stops=False)
    ranges = detection.check_before([RANGE], ())
    assert detection.incomplete(ranges) == {RANGE}
    detection.check_after(ranges)
    assert detection.late_loss is None


def test_a_file_says_its_place_by_a_number() -> None:
    """The partitions of a batch's topics are numbered through; no other number is taken."""
    places = (("a", 0), ("a", 2), ("b", 0))
    ranges = tuple(OffsetRange(topic, partition, 0, 10) for topic, partition in places)
    batch = Batch("p", "q", 0, ranges)
    written = [f"x/__kwire_number={number}/part-0.c000.snappy.parquet" for number in (0, 2, 3)]
    found = [name.rpartition("/")[0] for name in by_range(written, batch).values()]
    assert found == [f"topic={topic}/partition={partition}" for topic, partition in places]
    for number in ("1", "9", "__HIVE_DEFAULT_PARTITION__"):
        with pytest.raises(ValueError, match="hasn't read"):
            by_range([f"x/__kwire_number={number}/part-0.c000.parquet"], batch)


def test_compressed_files_named_by_batch_keep_both_parts_of_their_ending() -> None:
    """Where Spark has no directories for partitions, the file's count is written another way."""
    name = "x/part-00001-0f0e1d2c-1111-2222-3333-c12345678901-c000.json.gz"
    assert by_batch([name], BATCH)[name] == "batch-q-0000000000-0.json.gz"


def test_a_topic_may_be_named_as_the_end_of_a_file() -> None:
    """Only the file's own name has its ending."""
    batch = Batch("p", "q", 0, (OffsetRange("a.c000.b", 0, 0, 5),))
    name = f"x/{BY_TOPIC}=a.c000.b/__kwire_partition=0/part-00000-c0ffee.c000.json.gz"
    wanted = "topic=a.c000.b/partition=0/00000000000000000000-00000000000000000005.json.gz"
    assert by_range([name], batch) == {name: wanted}

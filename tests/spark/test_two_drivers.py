"""A second driver can't make the first one lose a batch."""

# Private attributes: a sink writes its rows aside with Spark, which this one does without.

from pathlib import Path
from typing import Any, cast

import pytest

from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.dead_letters import only_part
from kwire.spark.driver_lock import CHECKPOINT_LOCK, SecondDriver, file_lock
from kwire.spark.pipeline import Pipeline
from kwire.spark.settings import PipelineSettings, SinkSettings, Source
from kwire.spark.sinks import files
from kwire.spark.sinks.claims import Claims
from kwire.spark.storage import LocalStorage

SOURCE = Source("127.0.0.1:1", ("orders",))
NO_SPARK = cast(Any, None)


def test_the_second_driver_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    """The line names the setting and the directory."""
    storage = LocalStorage(tmp_path)
    with (
        file_lock(storage, CHECKPOINT_LOCK, "checkpoint"),
        pytest.raises(
            SecondDriver, match=f"checkpoint: another driver writes to file://{tmp_path}"
        ),
        file_lock(storage, CHECKPOINT_LOCK, "checkpoint"),
    ):
        pass
    with file_lock(storage, CHECKPOINT_LOCK, "checkpoint"):
        pass


@pytest.mark.parametrize("key", ["checkpoint", "sink.path"])
def test_a_run_takes_its_locks_before_it_touches_anything(
    tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the status of the first driver nor its files change."""
    held = {"checkpoint": ("checkpoint", "driver"), "sink.path": ("table", "_kwire/driver")}
    for module in ("pipeline", "driver_lock"):
        monkeypatch.setattr(
            f"kwire.spark.{module}.storage_at", lambda url, spark: LocalStorage(Path(url))
        )
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    sink = SinkSettings("parquet", str(table))
    settings = PipelineSettings("p", SOURCE, sink, str(checkpoint))
    directory, name = held[key]
    with (
        file_lock(LocalStorage(tmp_path / directory), name, key),
        pytest.raises(SecondDriver, match=key),
    ):
        Pipeline(settings, spark=cast(Any, object())).run()
    assert not (checkpoint / "status.json").exists()


class Rows:
    """What a sink asks of rows before it writes them."""

    columns = (files.BY_TOPIC,)


class Sink(files.FilesSink):
    """A files sink that writes one file aside without Spark; then something happens."""

    def __init__(self, path: Path) -> None:
        super().__init__(SinkSettings("parquet", str(path)), SOURCE, "p")
        self.meanwhile: Any = lambda: None
        self.open(NO_SPARK)

    def _write_aside(self, rows: Any, aside: str, is_by_range: bool) -> None:
        place = "__kwire_topic=orders/__kwire_partition=0/part.c000.snappy.parquet"
        self._aside.write(f"{aside}/{place}", b"rows")
        self._aside.write(f"{aside}/_SUCCESS", b"")
        self.meanwhile()


BATCH = Batch("p", "q", 0, (OffsetRange("orders", 0, 0, 10),))


def test_a_batch_that_was_removed_before_its_files_got_their_names_is_an_error(
    tmp_path: Path,
) -> None:
    """Another driver's start removes what is aside; the batch must not count as written."""
    table = tmp_path / "table"
    sink = Sink(table)
    sink.meanwhile = lambda: Sink(table)
    with pytest.raises(RuntimeError, match=r"another driver writes to .*/table"):
        sink.write_prepared(cast(Any, Rows()), BATCH)
    assert Claims(LocalStorage(table)).ranges() == []


def test_a_removal_that_is_under_way_is_an_error_too(tmp_path: Path) -> None:
    """It begins with the mark, so what is left of the files is no batch."""
    sink = Sink(tmp_path / "table")
    aside = tmp_path / ".kwire-table"
    sink.meanwhile = lambda: [one.unlink() for one in aside.rglob("_SUCCESS")]
    with pytest.raises(RuntimeError, match="has no _SUCCESS"):
        sink.write_prepared(cast(Any, Rows()), BATCH)


def test_dead_letters_of_a_batch_are_one_whole_file(tmp_path: Path) -> None:
    """Several files, or a directory that another driver has emptied, are an error."""
    storage = LocalStorage(tmp_path)
    with pytest.raises(RuntimeError, match="another driver"):
        only_part(storage)
    storage.write("_SUCCESS", b"")
    assert only_part(storage) == ""
    storage.write("part-0.parquet", b"")
    assert only_part(storage) == "part-0.parquet"
    storage.write("part-1.parquet", b"")
    with pytest.raises(RuntimeError, match="2 are there"):
        only_part(storage)

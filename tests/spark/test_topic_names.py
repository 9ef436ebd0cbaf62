"""Every legal name of a topic, in the names of files and in what tools make of it."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.file_names import FileName, is_hidden, parse, topic_directory
from kwire.spark.settings import SinkSettings, Source
from kwire.spark.sinks.claims import Claims
from kwire.spark.sinks.files import BY_TOPIC, FilesSink, by_range
from kwire.spark.storage import LocalStorage
from kwire.spark.upkeep import Cutoff
from kwire.spark.upkeep.conditions import Columns, of_range
from kwire.spark.upkeep.files import Known, Upkeep, expired, merges

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
LIKE_OTHERS = st.sampled_from(
    (
        *("0042", "42", "-1", "1.5", ".5", "5.", "1e5", "1E-5", "1d", "1F", "0x1F", "0x1p3"),
        *("1_000", "NaN", "nan", "-Infinity", "inf", "true", "False", "null", "NULL", "None"),
        *("NA", "N.A"),
        *("2024-01-31", "2024-1", "20240131", "2024-01-31T10", "2024-01-31_10.30", "12-30-45Z"),
        *("__HIVE_DEFAULT_PARTITION__", "...", "..a", "-", "_", "._", "a.c000.json", "a-i1-2"),
        *("9" * 248, "9" * 249, "a" * 249, "-" * 249, f"1e{'0' * 240}5", "topic", "partition-0"),
    )
)
TOPICS = (
    st.text(LETTERS, min_size=1, max_size=249).filter(lambda one: one not in (".", ".."))
    | st.text("0123456789", min_size=1, max_size=249)
    | st.text("0123456789.-_eEdDfFxXTZ", min_size=1, max_size=12).filter(
        lambda one: one not in (".", "..")
    )
    | LIKE_OTHERS
)


NO_TEXTS = {"true", "false", "null", "none", "na", "nat", "__hive_default_partition__"}
READINGS: tuple[Callable[[str], object], ...] = (
    float,
    lambda text: float.fromhex(text) if "x" in text.lower() else int("no"),
    lambda text: int(text, 0),
    date.fromisoformat,
    datetime.fromisoformat,
)
"""What readers try; each raises ValueError for a text."""


def looks_like_no_text(name: str) -> bool:
    """Whether a reader of a directory's name would make something else of it."""
    if name.lower() in NO_TEXTS:
        return True
    java = name[:-1] if name[-1] in "dDfF" else name
    for reading in READINGS:
        for text in (name, java):
            with suppress(ValueError, OverflowError):
                reading(text)
                return "W" not in name  # the number of a week, which only Python reads
    return False


@given(TOPICS)
@example("9" * 248)
def test_a_reader_takes_a_topic_for_a_text(topic: str) -> None:
    """And reads its name, after a mark where there has to be one."""
    directory = topic_directory(topic)
    found = directory.removeprefix("topic=")
    assert found.removeprefix("@") == topic
    assert len(directory.encode()) <= 255
    if len(topic) < 249:
        assert not looks_like_no_text(found)


@given(st.text(LETTERS, min_size=1, max_size=249))
def test_a_name_with_a_word_has_no_mark(rest: str) -> None:
    """Usual names stay as they are."""
    for topic in (f"order{rest}"[:249], f"2024-order-{rest}"[:249]):
        assert topic_directory(topic) == f"topic={topic}"


@given(TOPICS, st.integers(0, 10**6), st.integers(0, 2**62), st.integers(0, 9))
def test_a_file_says_its_topic(topic: str, partition: int, first: int, incarnation: int) -> None:
    """Whatever the topic is called, also with directories before it."""
    name = FileName(topic, partition, first, first + 1, None, "json.gz", incarnation)
    assert parse(str(name)) == name
    assert parse(f"topic=other/partition=7/{name}") == name
    assert parse(f"file:///data/{name}") == name
    assert not any(map(is_hidden, str(name).split("/")))


@given(st.lists(TOPICS, min_size=1, max_size=4, unique=True))
def test_a_batch_names_its_files(topics: list[str]) -> None:
    """By the topic that Spark has written into a directory's name, or by its number."""
    ranges = tuple(OffsetRange(one, 0, 0, 5) for one in topics)
    written = [f"x/{BY_TOPIC}={one}/__kwire_partition=0/part-0.c000.json" for one in topics]
    assert all(len(part) <= 255 for one in written for part in one.split("/"))
    found = by_range(written, Batch("p", "q", 0, ranges))
    assert [parse(found[one]) for one in written] == [
        FileName(one, 0, 0, 5, None, "json") for one in topics
    ]


@given(st.lists(TOPICS, min_size=1, max_size=4, unique=True))
def test_upkeep_keeps_topics_apart(topics: list[str]) -> None:
    """Files are merged and removed within their own topic."""
    files = sorted(
        (
            Known(FileName(one, 0, first, first + 5), 10, 0.0)
            for one in topics
            for first in (0, 5, 10)
        ),
        key=lambda one: one.name[:3],
    )
    groups = merges(files, 100)
    assert sorted({one.name.topic for group in groups for one in group}) == sorted(topics)
    assert all(len({one.name.topic for one in group}) == 1 for group in groups)
    doomed = expired(files, Cutoff(topic=topics[0], partition=0, before_offset=5))
    assert [one.name for one in doomed] == [FileName(topics[0], 0, 0, 5)]


@given(TOPICS)
def test_a_condition_has_the_topic_as_a_text(topic: str) -> None:
    """In SQL of Spark, of Delta's and Iceberg's packages alike."""
    found = of_range(OffsetRange(topic, 0, 0, 5), Columns(has_incarnation=False))
    assert found.startswith(f"(_topic = '{topic}' AND ")


def test_a_directory_of_an_earlier_version_may_be_beside_the_new_one(tmp_path: Path) -> None:
    """As after an earlier version has run once more: the start puts all files into the new one."""
    for directory, partition, first in (("0042", 0, 0), ("0042", 1, 0), ("@0042", 0, 5)):
        file = FileName("0042", partition, first, first + 5, extension="json").name
        path = tmp_path / f"topic={directory}" / f"partition={partition}" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{partition} {first}\n")
    sink = FilesSink(SinkSettings("json", str(tmp_path)), Source("h:1", ("0042",)), "p")
    for _ in range(2):
        sink.open(None)  # type: ignore[arg-type]
        found = {one.relative_to(tmp_path).as_posix() for one in tmp_path.glob("topic=*/*/*")}
        assert found == {
            str(FileName("0042", partition, first, first + 5, extension="json"))
            for partition, first in ((0, 0), (0, 5), (1, 0))
        }
        assert [one.name for one in tmp_path.glob("topic=*")] == ["topic=@0042"]


def test_files_of_an_earlier_version_expire(tmp_path: Path) -> None:
    """Also before the pipeline runs again: else they would be noted as expired, and stay."""
    for first in (0, 5, 10):
        file = FileName("0042", 0, first, first + 5, extension="json").name
        path = tmp_path / "topic=0042" / "partition=0" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    upkeep = Upkeep(SinkSettings("json", str(tmp_path)))
    done = upkeep.expire(None, Cutoff(None, "0042", 0, 10), 0)
    assert (done.files_before, done.files_after) == (3, 1)
    [left] = tmp_path.glob("topic=*/*/*")
    name = FileName("0042", 0, 10, 15, extension="json")
    assert left.relative_to(tmp_path).as_posix() == str(name)


@pytest.mark.parametrize(
    "topic", ["0042", "a" * 249, "9" * 249, "...", "__HIVE_DEFAULT_PARTITION__"]
)
def test_files_of_such_a_topic_are_merged_and_expired(tmp_path: Path, topic: str) -> None:
    """On a disk: the directory, what is written aside, and what the sink has noted."""
    for first in (0, 5, 10):
        path = tmp_path / "table" / str(FileName(topic, 0, first, first + 5, extension="json"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{first}\n")
    claims = Claims(LocalStorage(tmp_path / "table"))
    claims.add(Batch("p", "q", 0, (OffsetRange(topic, 0, 0, 15),)))
    upkeep = Upkeep(SinkSettings("json", str(tmp_path / "table")))
    assert upkeep.compact(None, 10**6).files_after == 2
    cutoff = Cutoff(topic=topic, partition=0, before_offset=10)
    assert upkeep.expire(None, cutoff, 0).files_after == 1
    [left] = (tmp_path / "table").glob("topic=*/*/*")
    assert parse(left.relative_to(tmp_path / "table").as_posix()) == FileName(
        topic, 0, 10, 15, extension="json"
    )
    assert json.loads((tmp_path / "table" / "_kwire" / "claims").read_text())["ranges"]

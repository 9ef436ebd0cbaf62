"""Options of reads of segments: a wrong one stops with its name, its value and what is allowed."""

import pytest

from kwire.spark.segments.options import EARLIEST, LATEST, Offsets, read_options
from kwire.spark.settings import WrongSetting


def test_defaults_are_the_connectors() -> None:
    """A batch reads everything, a stream what comes; all columns but the headers."""
    batch = read_options({"path": "/data"})
    assert (batch.starting, batch.ending) == (Offsets(EARLIEST), Offsets(LATEST))
    names = "key value topic partition offset timestamp timestampType"
    assert batch.columns == tuple(names.split())
    assert read_options({"path": "/data"}, is_stream=True).starting == Offsets(LATEST)
    assert not batch.is_committed


def test_values_become_fields() -> None:
    """Names are found in any case, as Spark gives them."""
    options = read_options(
        {
            "path": "/data",
            "TOPICS": "a, b",
            "partitions": "0,2-4",
            "startingoffsets": '{"a": {"0": 5, "1": -1}}',
            "endingTimestamp": "2026-01-31T12:00:00Z",
            "columns": "OFFSET, timestamptype",
            "isolation": "read_committed",
        }
    )
    assert options.topics == ("a", "b")
    assert options.partitions == {0, 2, 3, 4}
    assert [options.starting.of("a", n) for n in range(3)] == [5, LATEST, EARLIEST]
    assert options.ending_timestamp == 1_769_860_800_000
    assert options.schema == "`offset` bigint, `timestampType` int"
    assert options.is_committed


def test_headers_are_a_column_of_their_own() -> None:
    """With includeHeaders, or named in columns."""
    assert read_options({"path": "/", "includeHeaders": "true"}).columns[-1] == "headers"
    named = {"path": "/", "includeHeaders": "true", "columns": "key"}
    assert read_options(named).columns == ("key",)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("path", "", "a data directory"),
        ("topic", "a", "no such option; there are path, topics"),
        ("topics", " ,", "separated by commas"),
        ("pattern", "(", "a regular expression"),
        ("partitions", "1-", "as in 0,2,4-7"),
        ("partitions", "4-2", "as in 0,2,4-7"),
        ("partitions", "0-999999999", "as in 0,2,4-7"),
        ("startingOffsets", "first", "earliest, latest, or JSON"),
        ("startingOffsets", '{"t": {"0": -3}}', "earliest, latest, or JSON"),
        ("startingOffsets", '{"t": [1]}', "earliest, latest, or JSON"),
        ("startingOffsets", "[" * 100_000, "earliest, latest, or JSON"),
        ("endingOffsets", "earliest", "latest, or JSON"),
        ("startingTimestamp", "yesterday", "milliseconds since 1970"),
        ("columns", "key,key", "each once"),
        ("columns", "keys", "some of key, value"),
        ("includeHeaders", "yes", "true or false"),
        ("isolation", "committed", "read_committed or read_uncommitted"),
        ("highWatermark", "none", "checkpoint or ignore"),
        ("splitBytes", "0", "a number from 1 to"),
        ("maxBatchBytes", "1e6", "a number from 1 to"),
        ("maxRecordsPerTrigger", "10", "use spark.readStream"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: str, allowed: str) -> None:
    """In one line."""
    with pytest.raises(WrongSetting) as caught:
        read_options({"path": "/data", name: value})
    assert caught.value.key.lower() == name.lower()
    assert allowed in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "is_stream"),
    [
        ({"topics": "a", "pattern": "b"}, False),
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, False),
        ({"maxRecordsPerTrigger": "1", "maxBytesPerTrigger": "1"}, True),
        ({"endingOffsets": "latest"}, True),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    options: dict[str, str], is_stream: bool
) -> None:
    """Also those that a stream can't have."""
    with pytest.raises(WrongSetting, match=r"not both|has no end"):
        read_options({"path": "/data", **options}, is_stream=is_stream)

"""Names of the files sink: they sort as offsets do, and say what a file holds."""

import pytest

from kwire.spark.file_names import FileName, is_hidden, parse

NAMES = [
    FileName("orders", 3, 0, 1),
    FileName("a.b_c-d", 0, 10, 2**63 - 1, 7, "json"),
    FileName("_hidden", 12, 999, 1000, 0),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_what_it_was_made_from(name: FileName) -> None:
    """A name is read as it was written, with any path before it."""
    assert parse(str(name)) == name
    assert parse(f"s3a://bucket/table/{name}") == name
    assert not any(map(is_hidden, str(name).split("/")))


def test_names_sort_as_offsets_do() -> None:
    """A plain listing is in the order of offsets."""
    names = [FileName("t", 0, first, first + 1).name for first in (9, 10, 99, 100, 10**18)]
    assert names == sorted(names)


@pytest.mark.parametrize(
    "path",
    [
        "topic=t/partition=0/part-00000.parquet",
        "topic=t/partition=0/00000000000000000005-00000000000000000005.parquet",
        "topic=t/partition=x/00000000000000000005-00000000000000000006.parquet",
        "topic=t/partition=0/_00000000000000000005-00000000000000000006.parquet",
        "topic=t/partition=0/00000000000000000005-00000000000000000006.parquet.crc",
        "00000000000000000005-00000000000000000006.parquet",
    ],
)
def test_other_names_are_no_files_of_the_sink(path: str) -> None:
    """Spark's own names, empty ranges and hidden files aren't taken for the sink's."""
    assert parse(path) is None

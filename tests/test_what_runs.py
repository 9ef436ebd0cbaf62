"""docs/WHAT-RUNS.md lists what tests run, in the versions that they run."""

import re

import pytest

from docs import what_runs_table as table


def test_the_page_is_what_the_tests_say() -> None:
    """`make docs` has been run since a mark or a version changed."""
    page = table.PAGE.read_text(encoding="utf-8")
    assert table.with_table(page) == page


def test_every_kind_of_program_is_there() -> None:
    """Stream libraries, Connect, MirrorMaker, Debezium, Streams, Spark, Celery, kcat."""
    found = table.rows()
    assert len({one.program for one in found}) == len(found) >= 12
    for one in found:
        assert re.match(r"\d+\.\d+", one.version), one
    assert {one.command.split()[1] for one in found} == {"ecosystem", "compat", "spark-stock"}


def test_a_version_is_read_where_it_is_locked() -> None:
    """In a lock file, in a file of Maven with its properties, or in the mark."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", table.version_of("celery"))
    assert table.version_of("kafka-streams") == "4.4.0"
    assert table.version_of("connect-mirror") == "4.3.1"
    assert table.version_of("kcat 1.7.1, of Debian 12") == "1.7.1, of Debian 12"
    with pytest.raises(ValueError, match="no lock file"):
        table.version_of("nothing")

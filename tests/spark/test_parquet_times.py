"""Nothing writes timestamps of type INT96: not by forgetting the settings, nor by asking for it."""

import re
from pathlib import Path

import pytest

import kwire.spark
from kwire.spark.parquet_times import TIMES
from kwire.spark.pipeline_file import WrongPipeline, pipeline_of
from kwire.spark.session import configuration

WRITER = re.compile(r"\.write\.(?:format|mode|option|parquet|json|save)|\.write$", re.MULTILINE)
GIVEN = {
    "name": "p",
    "checkpoint": "/c",
    "source": {"bootstrap_servers": "127.0.0.1:1", "topics": ["t"]},
    "decode": {"schema": "n int"},
    "sink": {"kind": "parquet", "path": "/t"},
}


def test_every_writer_comes_from_one_place() -> None:
    """No module takes a DataFrame's own writer but the one that sets the times."""
    top = Path(kwire.spark.__file__).parent
    found = [
        str(path.relative_to(top))
        for path in sorted(top.rglob("*.py"))
        if WRITER.search(path.read_text())
    ]
    assert found == ["parquet_times.py"]


def test_a_session_has_the_settings() -> None:
    """The session that kwire makes for a pipeline."""
    assert TIMES.items() <= configuration(pipeline_of(GIVEN), "4.0.0").items()


@pytest.mark.parametrize("name", TIMES)
def test_other_times_are_refused(name: str) -> None:
    """By the name of the setting, with what is allowed; the same value may be given."""
    pipeline_of({**GIVEN, "spark": {name: TIMES[name].lower()}})
    with pytest.raises(WrongPipeline, match=f"{name}.*other readers find other times"):
        pipeline_of({**GIVEN, "spark": {name: "INT96"}})

"""docs/PIPELINES.md names every key of a pipeline's file, and every option of each kind."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from kwire.spark.decode.options import FORMATS
from kwire.spark.settings import (
    DeadLetters,
    Decode,
    PipelineSettings,
    SinkSettings,
    Source,
    Transform,
    WrongSetting,
)
from kwire.spark.sinks import KINDS, make_sink

TEXT = (Path(__file__).parents[2] / "docs" / "PIPELINES.md").read_text(encoding="utf-8")
TABLES = {
    "source.": Source,
    "decode.": Decode,
    "transform.": Transform,
    "sink.": SinkSettings,
    "dead_letters.": DeadLetters,
    "": PipelineSettings,
}
IN_TABLES_OF_THEIR_OWN = {"options", "source", "sink", "decode", "transforms", "dead_letters"}


def section(heading: str) -> str:
    """The text below a heading."""
    return TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_every_key_is_in_the_table() -> None:
    """No more and no less than the dataclasses have."""
    told = re.findall(r"^\| `([\w.]+)` \|.*\|.*\|$", section("The file"), re.MULTILINE)
    known = {
        f"{prefix}{one.name}"
        for prefix, kind in TABLES.items()
        for one in fields(kind)  # type: ignore[arg-type]
        if one.name not in IN_TABLES_OF_THEIR_OWN
    }
    assert set(told) == known
    assert len(told) == len(known)


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_of_a_sink_is_told(kind: str) -> None:
    """A sink that is asked for an option it doesn't have names those that it has."""
    settings = SinkSettings(kind, "path", options={"nosuch": "1"})
    with pytest.raises(WrongSetting) as wrong:
        make_sink(settings, Source("127.0.0.1:9092"), "orders").check()
    known = re.findall(r"\w+", wrong.value.allowed.rpartition("options ")[2].partition(";")[0])
    names = [one for one in known if one not in ("one", "of")]
    [row] = re.findall(rf"^\| .*`{kind}`.* \| (.*) \|$", section("The file"), re.MULTILINE)[-1:]
    own = row + ("`partition_by`, `properties`" if "those of the format" in row else "")
    assert [one for one in names if f"`{one}`" not in own] == []


@pytest.mark.parametrize("name", FORMATS)
def test_every_option_of_a_format_is_told(name: str) -> None:
    """In the section about decoding."""
    told = section("Decoding")
    assert [one for one in FORMATS[name] if f"`{one}`" not in told] == []

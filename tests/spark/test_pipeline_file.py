"""A pipeline's file: every mistake is named with its line, key, value and what is allowed."""

from pathlib import Path

import pytest

from kwire.spark.pipeline_file import WrongPipeline, pipeline_of, read_pipeline
from kwire.spark.settings import Transform
from kwire.spark.toml_lines import line_of

GOOD = """\
checkpoint = "state"
[source]
bootstrap_servers = "127.0.0.1:9092"
topics = ["orders"]
[decode]
schema = "id long"
[sink]
kind = "parquet"
path = "table"
"""


def written(tmp_path: Path, text: str) -> Path:
    """A pipeline's file with this text."""
    path = tmp_path / "orders.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_small_file_is_enough(tmp_path: Path) -> None:
    """The rest has defaults; the name is the file's."""
    found = read_pipeline(written(tmp_path, GOOD))
    assert found.name == "orders"
    assert found.source.topics == ("orders",)
    assert found.source.isolation_level == "read_committed"
    assert (found.decode.format, found.decode.options) == ("json", {"schema": "id long"})
    assert (found.sink.kind, found.trigger, found.dead_letters) == ("parquet", "10 seconds", None)


def test_every_table(tmp_path: Path) -> None:
    """Options keep the names that Kafka and Spark give them, with or without quotes."""
    text = GOOD.replace(
        'topics = ["orders"]', 'topics = ["orders", "refunds"]\nstarting = {orders = {0 = 5}}'
    )
    text += """
metadata = ["topic", "offset"]
compression = "zstd"
[source.client]
fetch.max.bytes = 1000
"check.crcs" = false
[[transform]]
sql = "SELECT * FROM rows"
[[transform]]
function = "shop.orders:clean"
[dead_letters]
topic = "orders-dead"
retry_delays_s = [1, 10.5]
[spark]
spark.sql.shuffle.partitions = 4
"""
    found = read_pipeline(written(tmp_path, text))
    assert found.source.starting == '{"orders": {"0": 5}}'
    assert found.source.client == {"fetch.max.bytes": "1000", "check.crcs": "false"}
    assert found.sink.options == {"compression": "zstd"}
    assert found.transforms == (Transform("SELECT * FROM rows"), Transform("", "shop.orders:clean"))
    assert found.dead_letters is not None
    assert found.dead_letters.retry_delays_s == (1, 10.5)
    assert found.spark == {"spark.sql.shuffle.partitions": "4"}


MISTAKES = [
    ('trigger = "soon"', 1, 'trigger = "soon": an interval such as'),
    ('triger = "once"', 1, 'triger = "once": one of name, checkpoint, trigger'),
    ('triger = "once"', 1, "did you mean trigger?"),
    ("name = 5", 1, "name = 5: a text"),
    ('name = "a/b"', 1, 'name = "a/b": letters, digits'),
    ('metrics = "9400"', 1, 'metrics = "9400": HOST:PORT'),
]
IN_SOURCE = [
    ('topicz = ["a"]', "did you mean topics?"),
    (
        'on_data_loss = "sotp"',
        'source.on_data_loss = "sotp": one of stop, record; did you mean stop',
    ),
    ('isolation_level = "committed"', "one of read_committed, read_uncommitted"),
    ('starting = "yesterday"', 'source.starting = "yesterday": earliest, latest, a time'),
    ('starting = "{\\"orders\\": 5}"', "earliest, latest, a time"),
    ("starting = {orders = {x = 5}}", "earliest, latest, a time"),
    ("starting = {orders = {0 = -3}}", "earliest, latest, a time"),
    ("max_bytes_per_trigger = -1", "max_bytes_per_trigger = -1: 0 (no limit) or more"),
    ('max_bytes_per_trigger = "1g"', 'max_bytes_per_trigger = "1g": a whole number'),
    ('pattern = "a.*"', "either topics or a pattern"),
    ('client = {"group.id" = "a"}', "not here: the pipeline sets it"),
    ('client = {"kafka.client.id" = "a"}', "Kafka's own name, client.id"),
    ('client = {"security.protocol" = "TLS"}', "one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
]
IN_SINK = [
    ('metadata = ["offsets"]', 'sink.metadata = "offsets": one of topic, partition, offset'),
    ('compresion = "zstd"', "one of compression; did you mean compression?"),
    ('compression = "zst"', 'sink.compression = "zst": one of snappy, zstd'),
]


@pytest.mark.parametrize(("line", "number", "said"), MISTAKES)
def test_mistakes_above_the_tables(tmp_path: Path, line: str, number: int, said: str) -> None:
    """The line, the key, the value, and what is allowed or near."""
    path = written(tmp_path, f"{line}\n{GOOD}")
    with pytest.raises(WrongPipeline) as caught:
        read_pipeline(path)
    [told] = caught.value.lines
    assert told.startswith(f"{path}:{number}: ")
    assert said in told


@pytest.mark.parametrize(
    ("table", "line", "said"),
    [("source", *row) for row in IN_SOURCE] + [("sink", *row) for row in IN_SINK],
)
def test_mistakes_in_tables(tmp_path: Path, table: str, line: str, said: str) -> None:
    """Also those that only the kind of the sink knows."""
    header = f"[{table}]"
    path = written(tmp_path, GOOD.replace(header, f"{header}\n{line}"))
    number = GOOD[: GOOD.index(header)].count("\n") + 2
    with pytest.raises(WrongPipeline) as caught:
        read_pipeline(path)
    [told] = caught.value.lines
    assert said in told
    if "either topics" not in said:  # the line of the topics, which are there too
        assert told.startswith(f"{path}:{number}: ")


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    """A file is mended in one go."""
    path = written(tmp_path, '[source]\ntopics = ["a b"]\nstarting = "no"\n[sink]\nkind = "x"\n')
    with pytest.raises(WrongPipeline) as caught:
        read_pipeline(path)
    keys = [line.split(": ", 1)[1].split(" ")[0].rstrip(":") for line in caught.value.lines]
    assert sorted(keys) == [
        "checkpoint",
        "source.bootstrap_servers",
        "source.starting",
        "source.topics",
    ]


def test_an_unknown_kind_of_sink(tmp_path: Path) -> None:
    """The kinds that there are, and the likeliest."""
    path = written(tmp_path, GOOD.replace("parquet", "parket"))
    with pytest.raises(WrongPipeline, match=r":8: sink.kind = \"parket\": one of .*parquet"):
        read_pipeline(path)


def test_files_that_are_no_pipelines(tmp_path: Path) -> None:
    """One line each: no file, no TOML."""
    with pytest.raises(WrongPipeline, match="cannot read the pipeline: No such file"):
        read_pipeline(tmp_path / "none.toml")
    with pytest.raises(WrongPipeline, match=r"not TOML: .*line 1"):
        read_pipeline(written(tmp_path, "name = orders"))


def test_a_mapping_is_as_good_as_a_file() -> None:
    """Its mistakes have no lines."""
    with pytest.raises(WrongPipeline) as caught:
        pipeline_of({"name": "orders", "checkpoint": "c", "source": {"topics": "a"}, "sink": 5})
    assert caught.value.lines == [
        "source.bootstrap_servers: is missing; it has no default",
        "sink = 5: a table [sink] with a kind",
    ]


def test_lines_of_keys() -> None:
    """Dotted keys, arrays of tables, and texts of several lines that look like keys."""
    text = 'a = """\nb = 1\n[c]\n"""\nb.c = 1\n[[t]]\nx = 1\n[[t]]\nx = 2\n["q.r"]\ny = 1\n'
    assert [
        line_of(text, path)
        for path in (("a",), ("b", "c"), ("t", "0", "x"), ("t", "1", "x"), ("t", "1", "z"))
    ] == [1, 5, 7, 9, 8]
    assert line_of(text, ("nothing",)) == 1

"""Settings that can't go together or have no effect are mistakes; messages have no secrets."""

import uuid
from typing import Any

import pytest

from kwire.spark.pipeline_file import WrongPipeline, pipeline_of
from kwire.spark.query import error_line
from kwire.spark.settings import WrongSetting


def mistakes(**tables: Any) -> str:
    """What is said about the good pipeline with some tables changed."""
    base: dict[str, dict[str, object]] = {
        "source": {"bootstrap_servers": "127.0.0.1:9092", "topics": ["orders"]},
        "decode": {"format": "text"},
        "sink": {"kind": "parquet", "path": "table"},
    }
    given = {"name": "p", "checkpoint": "state", **base, **tables}
    try:
        pipeline_of(given)
    except WrongPipeline as error:
        return "\n".join(error.lines)
    return ""


def source(**changed: object) -> dict[str, object]:
    """A source's table."""
    return {"bootstrap_servers": "127.0.0.1:9092", "topics": ["orders"], **changed}


PATTERN = source(topics=[], pattern="or.*")
CONFLICTS: list[tuple[dict[str, dict[str, object]], str]] = [
    ({"dead_letters": {"topic": "orders"}}, 'dead_letters.topic = "orders": a topic that the'),
    (
        {"dead_letters": {"topic": "orders-retry-1", "retry_delays_s": [1]}},
        'dead_letters.topic = "orders-retry-1": not a retry topic',
    ),
    (
        {"dead_letters": {"topic": "p-orders-retry-1", "retry_delays_s": [1]}},
        'dead_letters.topic = "p-orders-retry-1": not a retry topic',
    ),
    (
        {
            "source": source(topics=["orders", "orders-retry-2"]),
            "dead_letters": {"topic": "dead", "retry_delays_s": [1, 2]},
        },
        'source.topics = "orders-retry-2": not a retry topic',
    ),
    (
        {"source": PATTERN, "sink": {"kind": "topic", "topic": "orders-out"}},
        'sink.topic = "orders-out": a topic that the pipeline doesn\'t read',
    ),
    (
        {"sink": {"kind": "topic", "topic": "orders", "bootstrap_servers": "b:1,localhost:9092"}},
        'sink.topic = "orders": a topic that the pipeline doesn\'t read',
    ),
    (
        {"sink": {"kind": "topic", "topic": "out"}, "dead_letters": {"topic": "out"}},
        'dead_letters.topic = "out": another topic than the sink\'s',
    ),
    (
        {"source": source(topics=[], pattern="p-.*"), "dead_letters": {"path": "dead"}},
        'source.pattern = "p-.*": not the topic p-replayed',
    ),
    ({"dead_letters": {"path": "./table/"}}, "another directory than sink.path's"),
    ({"dead_letters": {"path": "table/dead"}}, "neither in sink.path's directory nor around it"),
    ({"sink": {"kind": "parquet", "path": "state"}}, "another directory than checkpoint's"),
    ({"sink": {"kind": "parquet", "path": "."}}, "neither in checkpoint's directory nor around"),
]


@pytest.mark.parametrize(("tables", "said"), CONFLICTS)
def test_what_is_written_is_not_what_is_read(
    tables: dict[str, dict[str, object]], said: str
) -> None:
    """A pipeline that reads its own records never ends; two writers of one place mix theirs."""
    told = mistakes(**tables)
    assert said in told
    assert "\n" not in told


@pytest.mark.parametrize(
    "tables",
    [
        {"dead_letters": {"topic": "orders-dead", "retry_delays_s": [1, 2.5]}},
        {"sink": {"kind": "topic", "topic": "orders", "bootstrap_servers": "elsewhere:9092"}},
        {"dead_letters": {"path": "table/_dead"}},
        {"dead_letters": {"path": "table-dead"}},
        {"dead_letters": {"path": "s3a://bucket/table"}},
    ],
)
def test_places_that_have_nothing_in_common(tables: dict[str, dict[str, object]]) -> None:
    """Another cluster, a name that only begins alike, a directory that readers pass over."""
    assert mistakes(**tables) == ""


@pytest.mark.parametrize("letters", [{"retry_delays_s": [1.0, 2.0]}, {}])
@pytest.mark.parametrize("name", ["p", "p" * 240, "\u00e9t\u00e9"])
@pytest.mark.parametrize("topic", ["t", "t" * 249, "t" * 239])
def test_topics_that_kwire_makes_have_legal_names(
    topic: str, name: str, letters: dict[str, object]
) -> None:
    """A retry topic's name has the pipeline's and its topic's: too long ones are refused."""
    made = [f"{name}-replayed", *([f"{name}-{topic}-retry-2"] if letters else [])]
    is_legal = all(len(one) <= 249 and one.isascii() for one in made)
    told = mistakes(
        name=name, source=source(topics=[topic]), dead_letters={"topic": "d", **letters}
    )
    assert (told == "") == is_legal
    assert is_legal or "and so few that" in told


def test_files_of_dead_letters_have_names_that_disks_take() -> None:
    """The pipeline's name is in the name of each, beside ids of the query and the batch."""
    for size, is_right in ((190, True), (191, False)):
        told = mistakes(name="p" * size, dead_letters={"path": "dead"})
        assert (told == "") == is_right
        name = f"dead-{'p' * size}-{uuid.uuid4()}-{7:010}.parquet"
        assert not is_right or len(name) <= 255


def test_two_spellings_of_a_directory_are_one() -> None:
    """A scheme of its own for local files, and two for S3."""
    dead = {"path": "s3://bucket/table/"}
    sink: dict[str, object] = {"kind": "parquet", "path": "s3a://bucket/table"}
    assert "another directory than sink.path's" in mistakes(sink=sink, dead_letters=dead)
    sink = {"kind": "parquet", "path": "/data/table"}
    assert "another directory" in mistakes(sink=sink, dead_letters={"path": "file:///data/table"})


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (
            {"dead_letters": {"topic": "dead", "retry_delays_s": ["a"]}},
            'dead_letters.retry_delays_s = ["a"]: a list of numbers',
        ),
        (
            {"dead_letters": {"topic": "dead", "retry_delays_s": [float("inf")]}},
            "dead_letters.retry_delays_s = [Infinity]: a list of numbers",
        ),
        (
            {"dead_letters": {"topic": "no topic/ö"}},
            'dead_letters.topic = "no topic/ö": a topic\'s',
        ),
        ({"dead_letters": {"topic": ".."}}, 'dead_letters.topic = "..": a topic\'s name'),
        (
            {"dead_letters": {"topic": "dead", "kind": "zzz"}},
            'dead_letters.kind = "zzz": only with',
        ),
        ({"source": source(topics=[1])}, "source.topics = [1]: a list of texts"),
        ({"source": source(topics=[], pattern="(")}, 'source.pattern = "(": a regular expression'),
        (
            {"sink": {"kind": "parquet", "path": "t", "metadata": [1]}},
            "sink.metadata = [1]: a list",
        ),
        ({"sink": {"kind": "topic", "topic": "a b"}}, 'sink.topic = "a b": a topic\'s name'),
        (
            {"sink": {"kind": "topic", "topic": "a", "path": "t"}},
            'sink.path = "t": not with the kind',
        ),
        (
            {"sink": {"kind": "topic", "topic": "a", "metadata": ["offset"]}},
            'sink.metadata = ["offset"]: not with the kind topic',
        ),
        (
            {"sink": {"kind": "delta-rs", "path": "t", "max_rows": -1}},
            "sink.max_rows = -1: a whole number, 1 or more",
        ),
        (
            {"sink": {"kind": "delta", "path": "t", "partition_by": [1]}},
            "sink.partition_by = [1]: a list of texts",
        ),
    ],
)
def test_values_without_effect_are_mistakes(
    tables: dict[str, dict[str, object]], said: str
) -> None:
    """And those that would fail in the middle of a run."""
    assert said in mistakes(**tables)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (
            {"decode": {"format": "json", "registry": "ftp://u:geheim@h"}},
            'decode.registry = "ftp://***@h": it is http',
        ),
        (
            {"decode": {"format": "json", "registry": "my_user:ge/h@eim@h:8081"}},
            'decode.registry = "my_user:***@h:8081": it is http',
        ),
        (
            {"decode": {"format": "json", "registry": "http://h", "registry_password": ["geheim"]}},
            'decode.registry_password = "***": it is a text',
        ),
        ({"decode": {"format": "text", "registry_password": "geheim"}}, 'password = "***"'),
        (
            {"source": source(client={"sasl.jaas.config": ["geheim"]})},
            'source.client.sasl.jaas.config = "***"',
        ),
        (
            {"source": source(client={"kafka.x": 'Login password="geheim" user=u;'})},
            'password=*** user=u;": Kafka',
        ),
        (
            {"sink": {"kind": "pyiceberg", "table": 5, "catalog": {"token": "geheim"}}},
            "sink.table = 5",
        ),
        (
            {"sink": {"kind": "parquet", "path": "t", "storage": {"token": "geheim", "a": "b"}}},
            'sink.storage = {"token": "***", "a": "b"}',
        ),
    ],
)
def test_messages_have_no_secrets(tables: dict[str, dict[str, object]], said: str) -> None:
    """Messages end in logs and in tickets."""
    told = mistakes(**tables)
    assert said in told
    assert "geheim" not in told
    assert "eim@" not in told


def test_exceptions_have_no_secrets() -> None:
    """Also those that don't come from a file; the value itself is for the program."""
    error = WrongSetting("decode.registry", "ftp://u:geheim@h", "it is http")
    assert "geheim" not in str(error)
    assert error.value == "ftp://u:geheim@h"


def test_failures_that_spark_tells_have_no_secrets() -> None:
    """They end in status files and in logs, also with a line of JAAS in them."""
    error = RuntimeError('no login: Module required username="u" password="geheim";\nat x.y')
    line = error_line(error)
    assert line == 'RuntimeError: no login: Module required username="u" password=***;'

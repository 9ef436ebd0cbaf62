"""Checks that a pipeline doesn't read what it writes, and that no two parts write to one place.

A pipeline that reads its own rows or dead letters never ends. Two parts that write the same topic
or directory mix records that readers can't tell apart, or remove each other's files.

Rules:

- Topics that are written: the sink's, the dead letters', the retry topics, and NAME-replayed, where
  ``replay`` marks what it has sent. The sink's topic counts only if it is in the source's cluster,
  that is, if both share an address.
- Their names are such that a cluster takes them: a retry topic's has that of its own topic in it.
- Debezium's events are for tables of upserts: other sinks have no rows to update or delete.
- Directories: the checkpoint, the sink's and the dead letters'. None of them may be the same as
  another one or below it. An exception are directories below a name that begins with ``_`` or
  ``.``, because readers of tables skip these.
"""

import os
import re
from collections.abc import Iterator

from kwire.spark.dead_letters import retry_topic
from kwire.spark.settings import PipelineSettings, WrongSetting

_MAX_TOPIC_CHARS = 249
_MAX_PARQUET_BYTES = 190
"""A file's name has 255, of which ``dead_letters`` takes some for a batch."""


def conflicts(settings: PipelineSettings) -> Iterator[WrongSetting]:
    """The settings that can't go together, one for each pair."""
    yield from _topics(settings)
    yield from _long_names(settings)
    yield from _paths(settings)
    if settings.decode.format == "debezium" and settings.sink.kind != "upsert":
        allowed = 'only with [sink] kind = "upsert", which keeps a table like the source\'s'
        yield WrongSetting("decode.format", "debezium", allowed)


def _topics(settings: PipelineSettings) -> Iterator[WrongSetting]:
    written = dict(_written(settings))
    for key, topic in written.items():
        if _is_read(settings, topic):
            yield WrongSetting(key, topic, "a topic that the pipeline doesn't read itself")
        elif _is_for_retries(settings, topic):
            yield WrongSetting(key, topic, "not a retry topic of this pipeline")
    if len(written) > len(set(written.values())):
        allowed = "another topic than the sink's: readers couldn't tell rows from dead letters"
        yield WrongSetting("dead_letters.topic", written["dead_letters.topic"], allowed)
    marks = f"{settings.name}-replayed"
    if settings.dead_letters and _is_read(settings, marks):
        allowed = f"not the topic {marks}, in which replay marks the dead letters it has sent"
        yield WrongSetting(
            "source.pattern" if settings.source.pattern else "source.topics",
            settings.source.pattern or marks,
            allowed,
        )
    for topic in settings.source.topics:
        if _is_for_retries(settings, topic):
            allowed = "not a retry topic of this pipeline, whose records it reads anyway"
            yield WrongSetting("source.topics", topic, allowed)


def _long_names(settings: PipelineSettings) -> Iterator[WrongSetting]:
    """The names of topics that kwire makes, if no cluster takes them."""
    letters = settings.dead_letters
    if letters is None:
        return
    made = [f"{settings.name}-replayed"]
    if letters.retry_delays_s:
        number = len(letters.retry_delays_s)
        made += [retry_topic(settings.name, one, number) for one in settings.source.topics]
    for topic in made:
        if len(topic) > _MAX_TOPIC_CHARS or not topic.isascii():
            allowed = f"letters without accents, and so few that {topic} has at most"
            yield WrongSetting("name", settings.name, f"{allowed} {_MAX_TOPIC_CHARS} characters")
            return
    if letters.path and letters.kind == "parquet":
        size = len(settings.name.encode())
        if size > _MAX_PARQUET_BYTES:
            allowed = f"at most {_MAX_PARQUET_BYTES} bytes: files of dead letters are called by it"
            yield WrongSetting("name", settings.name, allowed)


def _written(settings: PipelineSettings) -> Iterator[tuple[str, str]]:
    """The topics of the source's cluster that the settings name, by their keys."""
    sink, letters = settings.sink, settings.dead_letters
    given = str(sink.options.get("bootstrap_servers", ""))
    is_here = not given or _addresses(given) & _addresses(settings.source.bootstrap_servers)
    if sink.kind == "topic" and is_here:
        yield "sink.topic", str(sink.options.get("topic", ""))
    if letters and letters.topic:
        yield "dead_letters.topic", letters.topic


def _addresses(text: str) -> set[str]:
    return {one.strip().lower().replace("localhost:", "127.0.0.1:") for one in text.split(",")}


def _is_read(settings: PipelineSettings, topic: str) -> bool:
    pattern = settings.source.pattern
    return topic in settings.source.topics or bool(pattern and re.fullmatch(pattern, topic))


def _is_for_retries(settings: PipelineSettings, topic: str) -> bool:
    """Whether a topic is a retry topic, as ``dead_letters.retry_topic`` names it."""
    if not (settings.dead_letters and settings.dead_letters.retry_delays_s):
        return False
    of_pipeline = f"({re.escape(settings.name)}-)?"
    return any(
        re.fullmatch(rf"{of_pipeline}{re.escape(one)}-retry-\d+", topic)
        for one in settings.source.topics
    )


def _paths(settings: PipelineSettings) -> Iterator[WrongSetting]:
    letters = settings.dead_letters.path if settings.dead_letters else ""
    named = (
        ("checkpoint", settings.checkpoint),
        ("sink.path", settings.sink.path),
        ("dead_letters.path", letters),
    )
    given = [(key, path, _normal(path)) for key, path in named if path]
    for place, (key, path, normal) in enumerate(given):
        for other, _, taken in given[:place]:
            if normal == taken:
                yield WrongSetting(key, path, f"another directory than {other}'s")
            elif _is_in(normal, taken) or _is_in(taken, normal):
                yield WrongSetting(key, path, f"neither in {other}'s directory nor around it")


def _normal(path: str) -> str:
    """A directory's path in a form in which different spellings are equal."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return os.path.abspath(path)
    if scheme == "file":
        return os.path.abspath("/" + rest.lstrip("/"))
    return f"{re.sub('s3[an]', 's3', scheme)}:{rest.rstrip('/')}"


def _is_in(inner: str, outer: str) -> bool:
    """Whether a directory is below another one and visible to the other's readers."""
    outer = outer.rstrip("/") + "/"
    return inner.startswith(outer) and inner.removeprefix(outer)[0] not in "_."

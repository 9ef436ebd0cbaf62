"""The columns or the plan that a format needs to decode, from its options or from the registry.

The reader's schema is the newest one in the registry that can become columns. Those that only older
versions have come after its own (``versions``). The columns of several topics are merged: a column
that only some topics have is null for the others. If no type fits the values of all, the column has
that of the first topic, and values of another type make dead letters. Of two names that a table
takes for the same one, the first is kept, and a record's own column (``_topic``) before a value's.

A topic without a subject has no reader's schema, so its records become dead letters that are worth
a retry. It is an error only if no topic has a subject.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from kwire.schemas.protobuf_compiler import compile_file, compile_text, first_message
from kwire.schemas.registry import AVRO, JSON, PROTOBUF, NoSuchSchema
from kwire.schemas.undecodable import WrongSchema
from kwire.spark.decode.avro_decoder import ANY_TOPIC, AvroPlan
from kwire.spark.decode.avro_defaults import check_defaults, parsed
from kwire.spark.decode.avro_schema import as_record, load
from kwire.spark.decode.avro_types import row_type as avro_row_type
from kwire.spark.decode.connect_values import Meanings
from kwire.spark.decode.ddl import WrongDdl, parse_ddl
from kwire.spark.decode.debezium import DebeziumPlan
from kwire.spark.decode.decoding import Plan, Respelled, Unfit
from kwire.spark.decode.in_python import plan_type
from kwire.spark.decode.json_schema import row_type as json_row_type
from kwire.spark.decode.merged_types import Spelled, merged
from kwire.spark.decode.options import Options, file_text
from kwire.spark.decode.protobuf_decoder import ProtobufPlan, ProtobufReader
from kwire.spark.decode.protobuf_types import row_type as protobuf_row_type
from kwire.spark.decode.same_names import names_apart
from kwire.spark.decode.spark_types import Place, SparkType
from kwire.spark.decode.spellings import with_spellings
from kwire.spark.decode.subjects import Newest, Version, subjects_of
from kwire.spark.decode.versions import how_to_fill, with_removed
from kwire.spark.rows import METADATA
from kwire.spark.settings import WrongSetting

logger = logging.getLogger(__name__)

REGISTRY_TYPES = {"avro": AVRO, "json": JSON, "protobuf": PROTOBUF}

Struct = dict[str, Any]


@lru_cache(maxsize=32)
def given_struct(options: Options) -> Struct | None:
    """The columns that a schema of JSON, CSV or Debezium in the options has; WrongSetting."""
    if options.has("schema"):
        try:
            return _with_own_names(_as_struct(parse_ddl(options["schema"])))
        except (WrongDdl, WrongSchema) as error:
            raise WrongSetting("decode.schema", options["schema"], str(error)) from error
    if options.has("schema_file"):
        text = file_text("schema_file", options["schema_file"])
        return _as_struct(_for_file(options, lambda: _with_own_names(json_row_type(text))))
    return None


def debezium_plan(of: Struct, options: Options) -> DebeziumPlan:
    """The plan for Debezium's events, with the columns of ``given_struct``."""
    how = Meanings(options["decimals"], options["timestamps"])
    return DebeziumPlan(json.dumps(of), how, options["placeholder"], options.registry)


def _with_own_names(of: Struct) -> Struct:
    """The columns; WrongSchema for a name that rows already have, or that occurs twice.

    Tables don't distinguish ``id`` and ``ID``, at any depth.
    """
    names = [one["name"].lower() for one in of["fields"]]
    for one, name in zip(of["fields"], names, strict=True):
        if not name:
            raise WrongSchema("a column has no name")
        if name in METADATA:
            raise WrongSchema(f"column {one['name']} is the record's own: name it otherwise")
        if names.count(name) > 1:
            raise WrongSchema(f"column {one['name']} is there twice: case makes no difference")
        if names_apart(one["type"]) != one["type"]:
            raise WrongSchema(f"in column {one['name']} two names differ only by case")
    return of


def _as_struct(of: Any) -> Struct:
    assert isinstance(of, dict)
    return of


@lru_cache(maxsize=32)
def given_plan(options: Options) -> Plan | None:
    """The plan for Avro or Protobuf from the options; None if it needs the registry."""
    if options.format == "avro":
        return _given_avro(options)
    if not options.has("schema_file"):
        return None
    reader = _for_file(options, lambda: _protobuf_file(options))
    of = _for_file(
        options, lambda: _with_own_names(protobuf_row_type(_descriptor(options, reader)))
    )
    return ProtobufPlan(plan_type(of), ((ANY_TOPIC, reader),), options.registry)


def _given_avro(options: Options) -> Plan | None:
    for name in ("schema", "schema_file"):
        if options.has(name):
            text = options[name] if name == "schema" else file_text(name, options[name])
            try:
                whole = load(text)
                of = _with_own_names(avro_row_type(whole))
                reader = _checked_by_fastavro(whole)
                check_defaults(whole)
            except WrongSchema as error:
                raise WrongSetting(f"decode.{name}", options[name], str(error)) from error
            return AvroPlan(plan_type(of), ((ANY_TOPIC, reader),), options.registry)
    return None


def _checked_by_fastavro(whole: Any) -> str:
    """A schema as text, if fastavro can use it; WrongSchema."""
    try:
        parsed(as_record(whole), with_defaults=False)
    except ImportError as error:
        raise WrongSchema("Avro is read by fastavro, of kwire's extra [spark]") from error
    except Exception as error:  # fastavro raises errors of several kinds
        raise WrongSchema(f"fastavro: {error}") from error
    return json.dumps(whole)


def _protobuf_file(options: Options) -> ProtobufReader:
    path = Path(options["schema_file"])
    try:
        compiled = compile_file(path) if path.suffix == ".proto" else path.read_bytes()
    except OSError as error:
        raise WrongSetting("decode.schema_file", str(path), f"it can't be read: {error}") from error
    return ProtobufReader(compiled, options["message"] or first_message(compiled))


def _descriptor(options: Options, reader: ProtobufReader) -> Any:
    try:
        return reader.descriptor()
    except KeyError as error:
        allowed = "the schema has no such message; write its full name, with the package"
        raise WrongSetting("decode.message", reader.message, allowed) from error
    except Exception as error:  # TypeError, DecodeError: errors of protobuf for a wrong file
        raise WrongSchema(f"it is no set of descriptors: {error}") from error


def _for_file(options: Options, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (WrongSchema, RecursionError) as error:
        raise WrongSetting("decode.schema_file", options["schema_file"], str(error)) from error


def registry_struct(options: Options, topics: Sequence[str]) -> Struct:
    """The columns of JSON values by the JSON Schemas of the topics' subjects."""
    found = _newest(options, topics)
    # A value of JSON says its type itself: what doesn't fit the columns is noticed anyway.
    of = _merged((one, _json_columns(newest, options)) for one, newest in found)[0]
    versions: list[SparkType] = []
    for _, newest in found:
        for one in newest.versions:
            with suppress(WrongSetting):  # _json_columns has told it
                _check_type(one, options)
                versions.append(_json_struct(one))
    return _as_struct(with_spellings(of, versions))


def registry_plan(
    options: Options, topics: Sequence[str], last: Mapping[str, int] | None = None
) -> Plan:
    """The plan for Avro or Protobuf by the schemas of the topics' subjects.

    ``last`` has the version of each topic after which no other counts (``versions_known``).
    """
    found = _newest(options, topics)
    if last is not None:
        found = [(topic, _until(one, last[topic])) for topic, one in found if topic in last]
    make: Any = _avro_readers if options.format == "avro" else _protobuf_readers
    each = [(topic, make(newest, options)) for topic, newest in found]
    of, unfit, respelled = _merged((topic, one.columns) for topic, one in each)
    plan: Any = AvroPlan if options.format == "avro" else ProtobufPlan
    found_plan: Plan = plan(
        plan_type(of),
        tuple((topic, one.reader) for topic, one in each),
        options.registry,
        tuple((topic, *older) for topic, one in each for older in one.older),
        frozenset(number for _, one in each for number in one.known),
        unfit,
        respelled,
    )
    return found_plan


def schema_ids(options: Options, topics: Iterable[str]) -> dict[str, int]:
    """The id of the newest schema of each topic, as it is known; none without a registry."""
    if options.registry is None:
        return {}
    subjects = subjects_of(options.registry)
    found = {topic: subjects.known(options.subject(topic)) for topic in topics}
    return {topic: one.schema.id for topic, one in found.items() if one is not None}


def versions_known(options: Options, topics: Iterable[str]) -> dict[str, int]:
    """The newest version of each topic's subject, as it is known."""
    assert options.registry is not None
    subjects = subjects_of(options.registry)
    named = topics if "{topic}" in options["subject"] else [ANY_TOPIC]
    found = {topic: subjects.known(options.subject(topic)) for topic in named}
    return {topic: one.schema.version for topic, one in found.items() if one is not None}


def _until(newest: Newest, last: int) -> Newest:
    """A subject as it was before later versions; as it is if all of the others were deleted."""
    kept = [one for one in newest.versions if one.schema.version <= last]
    if len(kept) in (0, len(newest.versions)):
        return newest
    return Newest(kept[0].schema, kept[0].used, tuple(kept[1:]))


def _newest(options: Options, topics: Sequence[str]) -> list[tuple[str, Newest]]:
    """The newest schema of each topic that has a subject."""
    assert options.registry is not None
    subjects = subjects_of(options.registry)
    found = []
    missing: NoSuchSchema | None = None
    for topic in topics if "{topic}" in options["subject"] else [ANY_TOPIC]:
        try:
            newest = subjects.newest(options.subject(topic), options.refresh_s)
        except NoSuchSchema as error:
            missing = error
            continue
        found.append((topic, newest))
    if missing is not None and not found:
        raise missing
    return found


def _merged(found: Iterable[tuple[str, Struct]]) -> tuple[Struct, Unfit, Respelled]:
    """The columns of all topics, which values of a topic can't be in them, and other spellings."""
    whole: Struct | None = None
    unfit, respelled = [], []
    for topic, of in found:
        conflicts: dict[Place, str] = {}
        spelled: Spelled = []
        whole = of if whole is None else _as_struct(merged(whole, of, conflicts, spelled))
        if conflicts:
            unfit.append((topic, tuple(conflicts.items())))
        if spelled:
            respelled.append((topic, tuple(spelled)))
    assert whole is not None
    # A new schema in the registry must not stop a pipeline: what a table can't keep is left out.
    return _as_struct(names_apart(whole, METADATA)), tuple(unfit), tuple(respelled)


class Readers(NamedTuple):
    """What a subject's versions are read with: for Avro a text, for Protobuf a ProtobufReader."""

    reader: Any
    columns: Struct
    older: tuple[tuple[int, Any, str], ...]
    """Id, reader and ``versions.How`` (JSON) of versions that differ from the newest one."""
    known: tuple[int, ...]


def _json_columns(newest: Newest, options: Options) -> Struct:
    return _readers(newest, options, lambda one: (None, _json_struct(one))).columns


def _avro_readers(newest: Newest, options: Options) -> Readers:
    return _readers(newest, options, _avro_reader)


def _protobuf_readers(newest: Newest, options: Options) -> Readers:
    message = options["message"]

    def read(version: Version) -> tuple[ProtobufReader, Struct]:
        nonlocal message
        reader, of = _protobuf_reader(version, options, message)
        message = message or reader.message
        return reader, of

    return _readers(newest, options, read)


def _readers(
    newest: Newest, options: Options, read: "Callable[[Version], tuple[Any, Struct]]"
) -> Readers:
    """The readers of a subject's versions, those left out that can't become columns.

    A newest version that can't must not stop a pipeline: its records are dead letters. WrongSetting
    if no version can. They are made once for the versions that are known of the subject.
    """
    if options in newest.made:
        made: Readers = newest.made[options]
        return made
    found: list[tuple[Version, Any, Struct]] = []
    failure: WrongSetting | None = None
    for version in newest.versions:
        try:
            _check_type(version, options)
            found.append((version, *read(version)))
        except WrongSetting as error:
            failure = failure or error
    if failure is not None:
        if not found:
            raise failure
        logger.warning("a version of the subject is left out: %s", failure)
    [(_, first, new), *others] = found
    columns = new
    for _, _, of in others:
        columns = _as_struct(with_removed(columns, of))
    hows = ((one, reader, how_to_fill(new, of, columns)) for one, reader, of in others)
    older = [
        (one.schema.id, reader, json.dumps(how)) for one, reader, how in hows if how is not None
    ]
    whole = Readers(first, columns, tuple(older), tuple(one.schema.id for one, _, _ in found))
    newest.made[options] = whole
    return whole


def _check_type(version: Version, options: Options) -> None:
    if version.schema.type != REGISTRY_TYPES[options.format]:
        text = f"schema id {version.schema.id} of its subject is of type {version.schema.type}"
        raise WrongSetting("decode.format", options.format, text)


@lru_cache(maxsize=256)
def _json_struct(version: Version) -> Struct:
    with _Named(version):
        return json_row_type(version.schema.text, dict(version.used))


@lru_cache(maxsize=256)
def _avro_reader(version: Version) -> tuple[str, Struct]:
    with _Named(version):
        whole = load(version.schema.text, [text for _, text in version.used])
        return _checked_by_fastavro(whole), avro_row_type(whole)


@lru_cache(maxsize=256)
def _protobuf_reader(
    version: Version, options: Options, message: str
) -> tuple[ProtobufReader, Struct]:
    with _Named(version):
        compiled = compile_text(version.schema.text, version.used)
        reader = ProtobufReader(compiled, message or first_message(compiled))
        return reader, protobuf_row_type(_descriptor(options, reader))


class _Named:
    """Adds the name of a wrong schema of the registry to its error."""

    def __init__(self, version: Version) -> None:
        self._schema = version.schema

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, WrongSchema | RecursionError):
            text = f"schema id {self._schema.id} of the registry can't become columns: {error}"
            raise WrongSetting("decode.registry", self._schema.id, text) from error

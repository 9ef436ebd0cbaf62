"""``kwire schemas``: the schemas of a registry, kwire's or another one with Confluent's REST API.

``check`` and ``diff`` compare here, with ``kwire.registry``, so that they say the same of every
registry: what would break, at which path, and for whom.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.cli.options import add_json, positive
from kwire.cli.output import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kwire.registry.schema_types.parsed import ParsedSchema
    from kwire.schemas.registry import Reference, RegisteredSchema, Registry

DEFAULT_URL = "http://127.0.0.1:8081"
TYPES = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
"""The types by the ends of files' names."""
_NAMES = ("avro", "json", "protobuf")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its actions and their options."""
    schemas = commands.add_parser("schemas")
    actions = schemas.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser(
        "list",
        help="list the subjects with their newest schemas",
        description="Lists the subjects of a registry: type and id of the newest version.",
    )
    add_json(listing)
    get = actions.add_parser(
        "get",
        help="print the text of a schema",
        description="Prints a schema as it is registered.",
    )
    which = get.add_mutually_exclusive_group()
    which.add_argument("subject", metavar="SUBJECT", nargs="?", help="a subject")
    which.add_argument("--id", metavar="ID", type=positive, help="the id of a schema")
    get.add_argument("--version", metavar="N", type=positive, help="default: the newest")
    register = actions.add_parser(
        "register",
        help="register a schema under a subject",
        description="Registers a schema as the newest version of a subject, and prints its id.",
    )
    check = actions.add_parser(
        "check",
        help="say what a schema would break, and for whom",
        description="Compares a schema with the versions of a subject, by the subject's level of "
        "compatibility. Says at which path it would break readers or old data. Exit code 1 if so.",
    )
    for action in (register, check):
        _add_schema(action)
    diff = actions.add_parser(
        "diff",
        help="show what changed between two versions, and for whom it matters",
        description="Shows the changed lines between two versions of a subject, and what readers "
        "with each of them can't read of the other's data.",
    )
    diff.add_argument("subject", metavar="SUBJECT")
    diff.add_argument("old", metavar="OLD", type=positive, help="a version")
    diff.add_argument("new", metavar="NEW", type=positive, help="a later version")
    for action, run in (
        (listing, _list),
        (get, _get),
        (register, _register),
        (check, _check),
        (diff, _diff),
    ):
        action.add_argument(
            "--registry",
            metavar="URL",
            default=DEFAULT_URL,
            help=f"the registry's address, also http://USER:PASSWORD@HOST (default: {DEFAULT_URL})",
        )
        action.set_defaults(run=_run, work=run)


def _add_schema(action: argparse.ArgumentParser) -> None:
    action.add_argument("subject", metavar="SUBJECT", help="such as orders-value")
    action.add_argument("file", metavar="FILE", help="a file with the schema, - for standard input")
    action.add_argument(
        "--type", choices=_NAMES, help="default: by the file's name, .avsc, .json or .proto"
    )
    action.add_argument(
        "--reference",
        metavar="NAME=SUBJECT:VERSION",
        action="append",
        default=[],
        help="a schema that this one uses, by the name it uses; several times for several",
    )


def _run(options: argparse.Namespace) -> int:
    from kwire.cli.output import fail
    from kwire.config.extras import needs
    from kwire.registry.schema_types.parsed import InvalidSchema
    from kwire.schemas.registry import NoRegistryThere, Registry, RegistryError, RegistrySettings

    settings = RegistrySettings(options.registry, login_names="--registry http://USER:PASSWORD@…")
    registry = Registry(settings)
    try:
        work: Callable[[argparse.Namespace, Registry], int] = options.work
        return work(options, registry)
    except NoRegistryThere as error:
        reason = re.sub(r"^\[Errno -?\d+\] ", "", error.reason)
        return fail(
            f"cannot connect to {settings.address}: {reason[:1].lower()}{reason[1:]}; serve a "
            "registry with kwire serve --registry 127.0.0.1:8081, or name a running one with "
            "--registry URL"
        )
    except (RegistryError, InvalidSchema, CommandError) as error:
        return fail(str(error))
    except ModuleNotFoundError as error:
        return fail(f"kwire schemas {needs('schemas', str(error.name))}")
    finally:
        registry.close()


def _list(options: argparse.Namespace, registry: "Registry") -> int:
    from kwire.cli.tables import show

    rows = []
    for subject in registry.subjects():
        newest = registry.newest(subject)
        rows.append(
            {"subject": subject, "version": newest.version, "type": newest.type, "id": newest.id}
        )
    columns = ("subject", "version", "type", "id")
    show(rows, columns, as_json=options.json, nothing="no subjects yet")
    return 0


def _get(options: argparse.Namespace, registry: "Registry") -> int:
    if options.id is not None:
        found = registry.by_id(options.id)
    elif options.subject is not None and options.version is not None:
        found = registry.version(options.subject, options.version)
    elif options.subject is not None:
        found = registry.newest(options.subject)
    else:
        raise CommandError("name a subject, or give --id")
    print(found.text)
    return 0


def _register(options: argparse.Namespace, registry: "Registry") -> int:
    given = _given(options)
    print(registry.register(options.subject, given.text, given.type, given.references))
    return 0


def _check(options: argparse.Namespace, registry: "Registry") -> int:
    from kwire.registry.compatibility import Level, incompatibilities
    from kwire.schemas.registry import NoSuchSchema

    new = _parsed(_given(options), registry)
    try:
        versions = registry.versions(options.subject)
    except NoSuchSchema:
        print(f"{options.subject} has no version yet: this one would be the first")
        return 0
    level = Level(registry.level(options.subject))
    checked = versions if level.is_transitive else versions[-1:]
    broken = 0
    for version in reversed(checked) if level is not Level.NONE else ():
        old = _parsed(registry.version(options.subject, version), registry)
        if level.is_backward:
            who = f"readers with this schema can't read data of version {version}"
            broken += _told(who, map(_line, incompatibilities(new, old)))
        if level.is_forward:
            who = f"readers with version {version} can't read data of this schema"
            broken += _told(who, map(_line, incompatibilities(old, new)))
    if not broken:
        print(f"{options.subject} can take it: {level} holds with {len(checked)} of its versions")
    return 1 if broken else 0


def _diff(options: argparse.Namespace, registry: "Registry") -> int:
    from difflib import unified_diff

    from kwire.cli.tables import one_line
    from kwire.registry.compatibility import incompatibilities

    subject = options.subject
    old, new = (
        _parsed(registry.version(subject, version), registry)
        for version in (options.old, options.new)
    )
    changed = unified_diff(
        _lines(old),
        _lines(new),
        f"{subject} version {options.old}",
        f"{subject} version {options.new}",
        lineterm="",
    )
    for line in changed:
        print(one_line(line))
    broken = 0
    for reader, writer, reading, written in (
        (new, old, options.new, options.old),
        (old, new, options.old, options.new),
    ):
        who = f"readers with version {reading} can't read data of version {written}"
        broken += _told(who, map(_line, incompatibilities(reader, writer)))
    if not broken:
        print("readers with either version can read data of the other")
    return 0


def _told(who: str, lines: "map[str]") -> int:
    """Print whom something breaks for, and what; returns how much."""
    found = list(lines)
    if found:
        print(f"{who}:")
    for line in found:
        print(f"  {line}")
    return len(found)


def _line(one: object) -> str:
    from kwire.cli.tables import one_line
    from kwire.registry.schema_types.parsed import Incompatibility

    assert isinstance(one, Incompatibility)
    return one_line(f"{one.path}: {one.text} ({one.kind})")


def _lines(schema: "ParsedSchema") -> list[str]:
    """The lines of a schema; JSON with one value a line."""
    import json

    if schema.type == "PROTOBUF":
        return schema.canonical.splitlines()
    found = json.loads(schema.canonical)
    return json.dumps(found, indent=2, ensure_ascii=False).splitlines()


def _given(options: argparse.Namespace) -> "RegisteredSchema":
    """The schema of the command line; CommandError."""
    from kwire.schemas.registry import RegisteredSchema

    kind = options.type.upper() if options.type else TYPES.get(Path(options.file).suffix)
    if kind is None:
        raise CommandError(f"the name {options.file} doesn't tell the type: give --type")
    try:
        is_input = options.file == "-"
        text = sys.stdin.read() if is_input else Path(options.file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CommandError(f"cannot read {options.file}: {error}") from error
    references = tuple(map(_reference, options.reference))
    return RegisteredSchema(id=0, type=kind, text=text, references=references)


def _reference(text: str) -> "Reference":
    from kwire.schemas.registry import Reference

    name, _, place = text.partition("=")
    subject, _, version = place.rpartition(":")
    if not name or not subject or not version.isdecimal():
        raise CommandError(f"--reference {text} is not NAME=SUBJECT:VERSION")
    return Reference(name, subject, int(version))


def _parsed(schema: "RegisteredSchema", registry: "Registry") -> "ParsedSchema":
    """A schema with those that it uses; InvalidSchema, RegistryError."""
    from kwire.registry.schema_types.parsing import parse

    used: dict[str, ParsedSchema] = {}
    for name, one in registry.referenced(schema).items():
        used[name] = parse(one.type, one.text, _own(one, used))
    return parse(schema.type, schema.text, _own(schema, used))


def _own(
    schema: "RegisteredSchema", used: "Mapping[str, ParsedSchema]"
) -> "dict[str, ParsedSchema]":
    return {one.name: used[one.name] for one in schema.references if one.name in used}

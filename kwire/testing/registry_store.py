"""The data of the schema registry of ``kwire.testing.registry``, and its answers as JSON.

The numbers of errors are Confluent's: 40401 subject, 40402 version, 40403 schema not found, 42201
invalid schema, 42202 invalid version, 409 incompatible.
"""

import json
import threading
from dataclasses import dataclass
from typing import Any

TYPES = ("JSON", "PROTOBUF", "AVRO")
LEVELS = (
    *("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE"),
    *("FULL", "FULL_TRANSITIVE"),
)

Body = dict[str, Any]


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True, slots=True)
class _Schema:
    id: int
    type: str
    text: str
    references: tuple[tuple[str, str, int], ...]

    def body(self) -> Body:
        """The schema as answers have it; Avro isn't named, as in Confluent's."""
        body: Body = {"schema": self.text}
        if self.type != "AVRO":
            body["schemaType"] = self.type
        if self.references:
            keys = ("name", "subject", "version")
            body["references"] = [dict(zip(keys, one, strict=True)) for one in self.references]
        return body


class SchemaStore:
    """Subjects with their versions; methods are called by several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._schemas: list[_Schema] = []
        self._subjects: dict[str, dict[int, _Schema]] = {}
        self._levels: dict[str, str] = {"": "BACKWARD"}

    def root(self) -> Body:
        """An empty object."""
        return {}

    def types(self) -> list[str]:
        """The types of schemas."""
        return list(TYPES)

    def subjects(self) -> list[str]:
        """All subjects."""
        with self._lock:
            return sorted(name for name, versions in self._subjects.items() if versions)

    def versions(self, subject: str) -> list[int]:
        """A subject's versions."""
        with self._lock:
            return sorted(self._versions(subject))

    def version(self, subject: str, version: str) -> Body:
        """One version, or the latest."""
        with self._lock:
            number, schema = self._version(subject, version)
            body: Body = {"subject": subject, "version": number, "id": schema.id}
            return {**body, **schema.body()}

    def text(self, subject: str, version: str) -> Any:
        """Only the schema of a version."""
        text = self.version(subject, version)["schema"]
        try:
            return json.loads(text)
        except ValueError:
            return text

    def register(self, subject: str, body: Body) -> Body:
        """Add a version, unless the subject has the schema already."""
        with self._lock:
            schema = self._schema(body)
            versions = self._subjects.setdefault(subject, {})
            if schema not in versions.values():
                problem = self._problem(subject, schema)
                if problem:
                    text = f"Schema being registered is incompatible with an earlier one: {problem}"
                    raise Refused(409, 409, text)
                versions[max(versions, default=0) + 1] = schema
            if schema not in self._schemas:
                self._schemas.append(schema)
            return {"id": schema.id}

    def look_up(self, subject: str, body: Body) -> Body:
        """The version of a subject that has the schema."""
        with self._lock:
            schema = self._schema(body)
            for number, one in self._versions(subject).items():
                if one == schema:
                    return self.version(subject, str(number))
            raise Refused(404, 40403, "Schema not found")

    def by_id(self, number: str) -> Body:
        """The schema with an id."""
        with self._lock:
            for one in self._schemas:
                if one.id == int(number):
                    return one.body()
        raise Refused(404, 40403, f"Schema {number} not found")

    def where(self, number: str) -> list[Body]:
        """The subjects and versions of an id."""
        with self._lock:
            return [
                {"subject": subject, "version": version}
                for subject, versions in self._subjects.items()
                for version, one in versions.items()
                if one.id == int(number)
            ]

    def delete(self, subject: str) -> list[int]:
        """Delete a subject; ids stay known."""
        with self._lock:
            numbers = sorted(self._versions(subject))
            del self._subjects[subject]
            return numbers

    def delete_version(self, subject: str, version: str) -> int:
        """Delete a version."""
        with self._lock:
            number, _ = self._version(subject, version)
            del self._subjects[subject][number]
            return number

    def config(self, subject: str = "") -> Body:
        """The level of compatibility."""
        with self._lock:
            return {"compatibilityLevel": self._levels.get(subject, self._levels[""])}

    def configure(self, *arguments: Any) -> Body:
        """Set the level of all subjects, or of one."""
        subject, body = ("", *arguments) if len(arguments) == 1 else arguments
        level = str(body.get("compatibility"))
        if level not in LEVELS:
            raise Refused(422, 42203, f"Invalid compatibility level {level}")
        with self._lock:
            self._levels[subject] = level
        return {"compatibility": level}

    def compatible(self, subject: str, version: str, body: Body) -> Body:
        """Whether a schema may follow."""
        with self._lock:
            self._version(subject, version)
            return {"is_compatible": not self._problem(subject, self._schema(body))}

    def _versions(self, subject: str) -> dict[int, _Schema]:
        versions = self._subjects.get(subject)
        if not versions:
            raise Refused(404, 40401, f"Subject '{subject}' not found.")
        return versions

    def _version(self, subject: str, version: str) -> tuple[int, _Schema]:
        versions = self._versions(subject)
        if version in ("latest", "-1"):
            return max(versions.items(), key=lambda one: one[0])
        if not version.isdigit():
            raise Refused(422, 42202, f"The specified version '{version}' is not a valid version")
        if int(version) not in versions:
            raise Refused(404, 40402, f"Version {version} not found.")
        return int(version), versions[int(version)]

    def _schema(self, body: Body) -> _Schema:
        """The schema of a request: a known one, or a new one with the next id."""
        kind, text = str(body.get("schemaType") or "AVRO"), body.get("schema")
        if kind not in TYPES or not isinstance(text, str):
            raise Refused(422, 42201, f"Invalid schema of type {kind}")
        references = tuple(
            (str(one["name"]), str(one["subject"]), int(one["version"]))
            for one in body.get("references") or ()
        )
        for _, subject, version in references:
            self._version(subject, str(version))
        normal = _normal(kind, text)
        for one in self._schemas:
            same = (one.type, one.references) == (kind, references)
            if same and _normal(one.type, one.text) == normal:
                return one
        return _Schema(len(self._schemas) + 1, kind, text, references)

    def _problem(self, subject: str, schema: _Schema) -> str:
        """Why a schema may not follow the newest schema; an empty text if it may."""
        versions = self._subjects.get(subject)
        level = self._levels.get(subject, self._levels[""])
        if not versions or level == "NONE":
            return ""
        newest = versions[max(versions)]
        if newest.type != schema.type:
            return f"its type was {newest.type}"
        if schema.type != "AVRO":
            return ""
        old, new = json.loads(newest.text), json.loads(schema.text)
        backward = "" if level.startswith("FORWARD") else _unreadable(old, new)
        forward = "" if level.startswith("BACKWARD") else _unreadable(new, old)
        return backward or forward


def _normal(kind: str, text: str) -> str:
    """A schema's text in the form in which schemas are compared."""
    if kind == "PROTOBUF":
        return " ".join(text.split())
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError as error:
        raise Refused(422, 42201, f"Invalid schema: {error}") from error


_WIDER = {("int", "long"), ("int", "float"), ("int", "double"), ("long", "float")} | {
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


def _unreadable(writer: Any, reader: Any) -> str:
    """Why a reader's Avro schema can't read what a writer's wrote, as far as fields go."""
    both = isinstance(writer, dict) and isinstance(reader, dict)
    if not both or writer.get("type") != "record" or reader.get("type") != "record":
        return ""
    written = {one["name"]: one["type"] for one in writer.get("fields", ())}
    for one in reader.get("fields", ()):
        name, of = one["name"], one["type"]
        if name not in written:
            if "default" not in one:
                return f"field {name} is new and has no default"
            continue
        simple = isinstance(of, str) and isinstance(written[name], str)
        if simple and of != written[name] and (written[name], of) not in _WIDER:
            return f"field {name} was {written[name]} and is {of}"
    return ""

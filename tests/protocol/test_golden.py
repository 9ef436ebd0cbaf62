"""Messages that Apache Kafka 4.4.0 itself serialized: the same fields, the same bytes.

``tests/data/golden-messages.jsonl.gz`` has one JSON object a line: api, key, kind, version,
header_version, fields, hex. Field names are Kafka's camelCase, bytes are base64, uuids Kafka's
strings, and tagged fields that have their default are absent, or structs of nothing but defaults.
The environment variable ``KWIRE_GOLDEN`` names another file of the same form.
"""

import base64
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kwire.protocol import types
from kwire.protocol.codec import decode, encode
from kwire.protocol.frame import request_header_version, response_header_version
from kwire.protocol.messages import MODULES, message_classes

GOLDEN = Path(__file__).parent.parent / "data" / "golden-messages.jsonl.gz"


def vectors() -> Iterator[dict[str, Any]]:
    """Every vector of the golden file."""
    path = Path(os.environ.get("KWIRE_GOLDEN", GOLDEN))
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def message_class(vector: dict[str, Any]) -> type:
    """The class that a vector is an instance of."""
    request, response = message_classes(vector["key"])
    return request if vector["kind"] == "request" else response


def build(message: type[types.Message], values: dict[str, Any]) -> types.Message:
    """The message whose fields Kafka's JSON gives; absent ones keep their default."""
    left = {name.lower(): value for name, value in values.items()}
    given = {
        field.name: value
        for field in message.FIELDS
        if (json_name := field.name.replace("_", "")) in left
        if not is_unwritten(field, value := convert(field.kind, field.element, left.pop(json_name)))
    }
    assert not left, f"{message.__name__} lacks {sorted(left)}"
    return message(**given)


def is_unwritten(field: types.Field, value: Any) -> bool:
    """Whether it is a tagged struct of nothing but defaults, which Kafka doesn't write."""
    return field.tag is not None and isinstance(value, types.Message) and value == type(value)()


def convert(kind: types.Kind, element: types.Element | None, value: Any) -> Any:
    """A value of Kafka's JSON as the value of a field."""
    if value is None:
        return None
    if kind is types.ARRAY:
        if isinstance(element, types.Kind):
            return [convert(element, None, item) for item in value]
        return [build(element, item) for item in value]
    if kind is types.STRUCT:
        return build(element, value)
    if kind in (types.binary, types.record_batches):
        return base64.b64decode(value)
    return types.uuid_from_str(value) if kind is types.uuid else value


def problem_with(vector: dict[str, Any]) -> str | None:
    """What a vector and the codec disagree about, if anything."""
    message, version = message_class(vector), vector["version"]
    data = bytes.fromhex(vector["hex"])
    expected = build(message, vector["fields"])
    decoded = decode(message, version, data)
    if decoded != expected:
        return f"decodes to {decoded}\nwhere Kafka has {expected}"
    for source, one in (("decoded", decoded), ("built", expected)):
        if (encoded := encode(one, version)) != data:
            return f"{source} message encodes to {encoded.hex()}\nwhere Kafka has {data.hex()}"
    return None


def test_every_golden_message_decodes_to_its_fields_and_encodes_to_its_bytes() -> None:
    """What Kafka wrote is read as what Kafka meant, and written as Kafka writes it."""
    wrong, count = [], 0
    for count, vector in enumerate(vectors(), start=1):  # used after the loop
        if problem := problem_with(vector):
            label = f"{vector['api']} {vector['kind']} v{vector['version']}"
            wrong.append(f"line {count}: {label}: {problem}")
    assert count > 0
    assert not wrong, f"{len(wrong)} of {count} differ\n" + "\n".join(wrong[:5])


def test_headers_have_the_version_that_kafka_gives_them() -> None:
    """The header version follows from the message and its version as in Kafka."""
    for vector in vectors():
        message, version = message_class(vector), vector["version"]
        rule = response_header_version
        if vector["kind"] == "request":
            rule = request_header_version
        assert rule(message, version) == vector["header_version"], (message, version)


def test_every_golden_version_is_a_version_of_the_message() -> None:
    """Message modules are found by key and know the versions that Kafka has."""
    seen: dict[int, set[int]] = {}
    for vector in vectors():
        seen.setdefault(vector["key"], set()).add(vector["version"])
    assert seen.keys() <= MODULES.keys()
    for key, versions in seen.items():
        for message in message_classes(key):
            first, last = message.VERSIONS
            assert first <= min(versions) <= max(versions) <= last
            assert key == message.API_KEY


def test_the_shipped_vectors_cover_every_api() -> None:
    """No message module is left unproven by the vectors that come with the repository."""
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        assert {vector["key"] for vector in map(json.loads, lines)} == set(MODULES)

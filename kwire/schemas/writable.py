"""Values of JSON in the format of a registry: a header with the schema's id, then the value.

Avro is written by its schema. A message of Protobuf is the schema's first. A value of JSON Schema
stays as it is, if it fits.
"""

import json
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from kwire.config.extras import needs
from kwire.schemas.avro_names import schema_and_names
from kwire.schemas.avro_writable import avro_bytes
from kwire.schemas.registry import AVRO, PROTOBUF, RegisteredSchema
from kwire.schemas.undecodable import Unwritable, WrongSchema
from kwire.schemas.wire_format import header


class WritableValues:
    """Writes values of one schema. ``used`` has the schemas that it refers to, by their names.

    Raises WrongSchema, also for a missing package.
    """

    def __init__(self, schema: RegisteredSchema, used: Mapping[str, RegisteredSchema]) -> None:
        self._header = header(schema.id, (0,) if schema.type == PROTOBUF else None)
        self._write: Callable[[Any, bytes], bytes]
        texts = {name: one.text for name, one in used.items()}
        if schema.type == AVRO:
            parsed, names = schema_and_names(schema.text, texts.values())
            self._write = lambda value, _: avro_bytes(parsed, names, value)
        elif schema.type == PROTOBUF:
            from kwire.schemas.protobuf_readable import writer

            write = writer(schema.text, texts.items())
            self._write = lambda value, _: write(value)
        else:
            self._write = _json_writer(schema.text, texts)

    def written(self, content: bytes) -> bytes:
        """The bytes of a value that is JSON; Unwritable."""
        try:
            value = json.loads(content, parse_constant=_no_json, parse_float=_finite)
        except (ValueError, RecursionError):
            raise Unwritable("it is no JSON") from None
        return self._header + self._write(value, content)


def _no_json(text: str) -> float:
    raise ValueError(text)


def _finite(text: str) -> float:
    found = float(text)
    if not isfinite(found):
        raise ValueError(text)
    return found


def _json_writer(text: str, used: Mapping[str, str]) -> Callable[[Any, bytes], bytes]:
    try:
        import jsonschema_rs
    except ImportError:
        problem = f"to check values of JSON Schema {needs('registry', 'jsonschema-rs')}"
        raise WrongSchema(problem) from None

    def retrieve(uri: str) -> Any:
        """A schema that is referred to; nothing is fetched."""
        name = next((one for one in used if uri == one or uri.endswith("/" + one)), None)
        if name is None:
            raise LookupError(f"it refers to {uri}, which isn't among its references")
        return json.loads(used[name])

    try:
        validator = jsonschema_rs.validator_for(json.loads(text), retriever=retrieve)
    except (ValueError, LookupError) as error:
        raise WrongSchema(" ".join(str(error).split())[:300]) from None

    def write(value: Any, content: bytes) -> bytes:
        error = next(validator.iter_errors(value), None)
        if error is not None:
            where = "".join(f"[{one!r}]" for one in error.instance_path) or "the value"
            raise Unwritable(f"{where}: {error.message:.200}")
        return content

    return write

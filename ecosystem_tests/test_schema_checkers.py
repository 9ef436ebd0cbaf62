"""The compatibility of schemas, as checkers of others have it: Avro's own, and Apicurio's.

Where they differ, each difference is of a kind that docs/decisions/0079 has, or the test fails.
"""

import json
import subprocess
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

import pytest

from compat_tests.java_tools import MissingTool, schema_checkers_command
from kwire.registry.compatibility import incompatibilities
from kwire.registry.schema_types.parsed import ParsedSchema
from kwire.registry.schema_types.parsing import AVRO, JSON, PROTOBUF, parse
from tests.registry.schema_pairs import avro_pair, json_schema_pair, protobuf_pair

PAIRS = 3000
DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}

OF_NAMES_AND_ENCODING = (
    "Field name changed",
    "fields removed without reservation",
    "Field type changed",
    "Field label changed",
)
"""What Apicurio forbids of Protobuf, and what can be read nevertheless."""
OF_ONEOFS = {"FIELD_MOVED_TO_EXISTING_ONEOF", "MULTIPLE_FIELDS_MOVED_TO_ONEOF"}
"""What can't be read, and Apicurio doesn't look at."""
SAME_SHARE_OF_JSON = 0.9
"""Of JSON Schemas, Apicurio compares kinds of schemas before what they allow."""


def answers(kind: str, pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """What the checker for a type says of each pair: yes, no or error; and why."""
    lines = [f"{kind}\t{encoded(old)}\t{encoded(new)}\n" for old, new in pairs]
    try:
        command = schema_checkers_command()
    except MissingTool as missing:
        pytest.skip(str(missing))
    run = subprocess.run(command, input="".join(lines), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    found = [line.split("\t") for line in run.stdout.splitlines()]
    assert len(found) == len(lines)
    return found


def encoded(text: str) -> str:
    """A text in base64."""
    return b64encode(text.encode()).decode()


def verdict(new: ParsedSchema, old: ParsedSchema) -> tuple[str, set[str]]:
    """What kwire says of a pair: yes or no, and the kinds."""
    found = incompatibilities(new, old)
    return "no" if found else "yes", {one.kind for one in found}


@pytest.mark.runs(
    "Avro's own compatibility checker, and Apicurio's for JSON Schema and Protobuf",
    "apicurio-registry-schema-util-json",
    "3,000 random pairs of schemas of each type; the canonical texts of Avro are the same",
)
def test_avro() -> None:
    """The same of every pair, and the same canonical text."""
    pairs = [(json.dumps(old), json.dumps(new)) for old, new in map(avro_pair, range(PAIRS))]
    for (old_text, new_text), (said, _, text) in zip(pairs, answers(AVRO, pairs), strict=True):
        old, new = parse(AVRO, old_text), parse(AVRO, new_text)
        assert verdict(new, old)[0] == said, f"{old_text} → {new_text}"
        assert old.canonical == text


def test_json_schema() -> None:
    """Nearly the same; whether the rest is right, a library proves in tests/registry."""
    pairs = [tuple(map(with_draft, json_schema_pair(seed))) for seed in range(PAIRS)]
    found = [
        (verdict(parse(JSON, new), parse(JSON, old))[0], said)
        for (old, new), (said, *_) in zip(pairs, answers(JSON, pairs), strict=True)
        if said != "error"
    ]
    assert len(found) > PAIRS * SAME_SHARE_OF_JSON
    assert sum(ours == said for ours, said in found) > len(found) * SAME_SHARE_OF_JSON


def with_draft(schema: Any) -> str:
    """A schema as text; without a draft, Apicurio takes the oldest."""
    return json.dumps({**DRAFT, **schema} if isinstance(schema, dict) else schema)


def test_protobuf() -> None:
    """The same, but for names, numbers that aren't reserved, types alike, and oneofs."""
    pairs = [tuple(parse(PROTOBUF, one) for one in protobuf_pair(seed)) for seed in range(PAIRS)]
    texts = [(old.canonical, new.canonical) for old, new in pairs]
    same = 0
    for (old, new), (said, why) in zip(pairs, answers(PROTOBUF, texts), strict=True):
        assert said != "error", why
        ours, kinds = verdict(new, old)
        same += ours == said
        if (ours, said) == ("no", "yes"):
            assert kinds <= OF_ONEOFS, f"{old.canonical} → {new.canonical}"
        elif (ours, said) == ("yes", "no"):
            reasons = [one for one in why.split(";") if one.strip()]
            assert all(any(part in one for part in OF_NAMES_AND_ENCODING) for one in reasons), why
    assert same > PAIRS / 2

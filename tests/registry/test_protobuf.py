"""Schemas of Protobuf: what is one, what makes two the same, what reads what, and hostile ones."""

import sys
from base64 import b64encode
from functools import cache

import pytest

from kwire.registry.compatibility import incompatibilities
from kwire.registry.parsing import SchemaTree, parse_tree
from kwire.registry.records import Schema
from kwire.registry.refusals import Refused
from kwire.registry.schema_types.parsed import InvalidSchema, ParsedSchema
from kwire.registry.schema_types.parsing import PROTOBUF, parse
from kwire.registry.schema_types.protobuf import ProtobufSchema

pytest.importorskip("grpc_tools", reason="make .venv/.test installs it")
pytest.importorskip("google.protobuf", reason="make .venv/.test installs it")

EVERYTHING = r"""syntax = "proto2";
package a.b;  // a comment
import public "google/protobuf/timestamp.proto";
import "google/protobuf/descriptor.proto";
option java_package = "x\"y";
extend google.protobuf.FieldOptions { optional Meta meta = 50000; repeated int32 nums = 50001; }
message Meta { optional string doc = 1; map<string, string> p = 2; }
message A {
  option deprecated = true;
  required int32 a = 1 [(meta) = {doc: "x" p: {key: "a" value: "b"}}, (nums) = 1, (nums) = 2];
  optional string s = 2 [default = "q\"\n"];
  optional bytes b = 3 [default = "\001\xff"];
  optional E e = 4 [default = Y, json_name = "foo"];
  repeated group G = 5 { optional int32 x = 1; }
  oneof o { string t = 6; A u = 7; google.protobuf.Timestamp w = 15; }
  map<int32, A> m = 8;
  extensions 100 to 199, 1000 to max;
  reserved 9, 10 to 12;
  reserved "old";
  enum E {
    option allow_alias = true;
    X = 0; Y = 1 [deprecated = true]; Z = 1;
    reserved 5 to max; reserved "F";
  }
  message N {
    extend A { optional int32 ext = 100; }
    optional double d = 1 [default = inf]; optional bool g = 3 [default = true];
  }
}
service S {
  option deprecated = true;
  rpc M (stream A) returns (stream .a.b.A) { option idempotency_level = IDEMPOTENT; }
  rpc N (A) returns (A);
}
"""
THIRD = """syntax = "proto3";
import "text.proto";
message B {
  optional int32 a = 1; int32 b_c__d = 2; repeated int32 r = 3 [packed = false];
  o.T t = 4; oneof x { int32 y = 5; } int64 json = 6 [json_name = "other"];
}
enum E { ZERO = 0; LESS = -1; }
"""
TEXT = """syntax = "proto3"; package o; import "confluent/meta.proto";
message T { int32 a = 1 [(confluent.field_meta).doc = "x"]; }"""


@cache
def proto(text: str) -> ProtobufSchema:
    """A schema without references of the registry."""
    found = parse(PROTOBUF, text)
    assert isinstance(found, ProtobufSchema)
    return found


@cache
def message(fields: str, others: str = "", head: str = 'syntax = "proto2";') -> ProtobufSchema:
    """A schema of one message, M."""
    return proto(f"{head} {others} message M {{ {fields} }}")


def broken(new: ProtobufSchema, old: ProtobufSchema) -> list[tuple[str, str]]:
    """The kinds and paths of what a reader with the new schema can't read."""
    return [(one.kind, one.path) for one in incompatibilities(new, old)]


@pytest.mark.parametrize("text", [EVERYTHING, THIRD], ids=["proto2", "proto3"])
def test_the_canonical_text_gives_the_same_descriptor(text: str) -> None:
    """As a file, and as a descriptor in base64: all are the same schema."""
    references: dict[str, ParsedSchema] = {"text.proto": proto(TEXT)}
    found = parse(PROTOBUF, text, references)
    again = parse(PROTOBUF, found.canonical, references)
    assert isinstance(found, ProtobufSchema)
    assert isinstance(again, ProtobufSchema)
    assert again.files[-1] == found.files[-1]
    assert again.canonical == found.canonical
    assert "a comment" not in found.canonical
    encoded = parse(PROTOBUF, b64encode(found.files[-1]).decode(), references)
    assert encoded.canonical == found.canonical
    assert not incompatibilities(found, encoded)
    assert parse(PROTOBUF, found.normalized, references).normalized == found.normalized


def test_a_reference_may_be_a_descriptor_in_base64() -> None:
    """Confluent's client for Python registers what it imports like that."""
    text = parse(PROTOBUF, b64encode(proto(TEXT).files[-1]).decode())
    assert parse(PROTOBUF, THIRD, {"text.proto": text}).canonical.count("o.T") == 1


def test_the_order_of_fields_is_gone_in_the_normalized_text() -> None:
    """And that of imports; messages keep theirs, for a record names its own by number."""
    imports = ('import "google/protobuf/any.proto";', 'import "google/protobuf/empty.proto";')
    one = message("optional int32 a = 1; optional int32 b = 2;", "".join(imports))
    other = message("optional int32 b = 2; optional int32 a = 1;", "".join(reversed(imports)))
    assert one.canonical != other.canonical
    assert one.normalized == other.normalized
    two = 'syntax = "proto3"; message A {} message B {}'
    turned = 'syntax = "proto3"; message B {} message A {}'
    assert proto(two).normalized != proto(turned).normalized


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ("optional int32 a = 1; optional int32 b = 2;", "optional int32 a = 1;", []),
        ("", "optional int32 a = 1;", []),
        ("optional int32 b = 1;", "optional int32 a = 1;", []),
        ("optional uint64 a = 1;", "optional int32 a = 1;", []),
        ("optional bool a = 1;", "optional int32 a = 1;", []),
        ("optional sint32 a = 1;", "optional int32 a = 1;", ["FIELD_SCALAR_KIND_CHANGED"]),
        ("optional sint32 a = 1;", "optional sint64 a = 1;", []),
        ("optional fixed32 a = 1;", "optional sfixed32 a = 1;", []),
        ("optional fixed64 a = 1;", "optional double a = 1;", ["FIELD_SCALAR_KIND_CHANGED"]),
        ("optional bytes a = 1;", "optional string a = 1;", []),
        ("optional E a = 1;", "optional int32 a = 1;", []),
        ("optional E a = 1;", "optional F a = 1;", ["FIELD_NAMED_TYPE_CHANGED"]),
        ("optional T a = 1;", "optional U a = 1;", ["FIELD_NAMED_TYPE_CHANGED"]),
        ("optional T a = 1;", "optional bytes a = 1;", ["FIELD_KIND_CHANGED"]),
        ("repeated int32 a = 1;", "optional int32 a = 1;", ["FIELD_NUMERIC_LABEL_CHANGED"]),
        ("repeated string a = 1;", "optional string a = 1;", []),
        ("repeated T a = 1;", "optional T a = 1;", []),
        ("required int32 a = 1;", "", ["REQUIRED_FIELD_ADDED"]),
        ("required int32 a = 1;", "optional int32 a = 1;", ["REQUIRED_FIELD_ADDED"]),
        ("", "required int32 a = 1;", ["REQUIRED_FIELD_REMOVED"]),
        ("oneof o { int32 a = 1; }", "optional int32 a = 1;", []),
        ("oneof o { int32 a = 1; int32 b = 2; }", "optional int32 a = 1;", []),
        (
            "oneof o { int32 a = 1; int32 b = 2; }",
            "optional int32 a = 1; optional int32 b = 2;",
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"],
        ),
        (
            "oneof o { int32 a = 1; int32 b = 2; }",
            "oneof o { int32 a = 1; } optional int32 b = 2;",
            ["FIELD_MOVED_TO_EXISTING_ONEOF"],
        ),
        ("", "oneof o { int32 a = 1; }", ["ONEOF_FIELD_REMOVED"]),
        ("optional int32 a = 1;", "oneof o { int32 a = 1; }", []),
        ("map<int32, string> a = 1;", "map<int64, bytes> a = 1;", []),
        ("map<int32, string> a = 1;", "map<int32, int32> a = 1;", ["FIELD_SCALAR_KIND_CHANGED"]),
        ("", "message N {}", ["MESSAGE_REMOVED"]),
        ("", "enum N { N0 = 0; }", []),
    ],
)
def test_what_a_reader_reads(new: str, old: str, expected: list[str]) -> None:
    """The rules of Protobuf's encoding; the kinds are Confluent's."""
    others = "enum E { E0 = 0; } enum F { F0 = 0; } message T {} message U {}"
    assert [kind for kind, _ in broken(message(new, others), message(old, others))] == expected


def test_messages_are_known_by_their_names() -> None:
    """Their order doesn't matter; the package does, and what is within messages elsewhere."""
    head = 'syntax = "proto3"; '
    one = proto(head + "message A { B b = 1; } message B { int32 a = 1; }")
    other = proto(head + "message B { string a = 1; } message A { B b = 1; }")
    assert broken(one, other) == [("FIELD_SCALAR_KIND_CHANGED", "#/B/1")]
    moved = proto(head + "package p; message B { int32 a = 1; } message A { B b = 1; }")
    assert ("PACKAGE_CHANGED", "#") in broken(moved, one)
    text = 'syntax = "proto3"; import "used.proto"; message A { U u = 1; }'

    def using(kind: str) -> ParsedSchema:
        used = proto(f"{head} message U {{ {kind} x = 1; U next = 2; }}")
        return parse(PROTOBUF, text, {"used.proto": used})

    found = incompatibilities(using("int32"), using("string"))
    assert [(one.kind, one.path) for one in found] == [("FIELD_SCALAR_KIND_CHANGED", "#/A/1/1")]
    assert not incompatibilities(using("int32"), using("bool"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", "it is neither a .proto file nor a descriptor in base64"),
        ("AAAA", "it is neither a .proto file nor a descriptor in base64"),
        ('syntax = "proto3"; message A { B b = 1; }', '"B" is not defined'),
        (
            'syntax = "proto3"; message A { int32 a = 1; int32 b = 1; }',
            "Field number 1 has already",
        ),
        ('syntax = "proto3"; import "../x.proto";', "protoc: ../x.proto"),
        ('syntax = "proto3"; import "/etc/passwd";', "protoc: /etc/passwd"),
        ('syntax = "proto3"; import "nowhere.proto";', "protoc: nowhere.proto: File not found"),
        ('edition = "2023"; message A {}', "its syntax is editions"),
        ("message A {" * 10_000, "recursion limit"),
        ("\0;", "control characters"),
        (" " * 1_000_000 + "x;", "Expected top-level statement"),
        ('syntax = "proto3"; ' + "".join(f"message M{one} {{}}" for one in range(51_000)), "parts"),
    ],
    ids=range(12),
)
def test_no_schema(text: str, why: str) -> None:
    """The error is one line that says what is wrong."""
    with pytest.raises(InvalidSchema) as caught:
        parse(PROTOBUF, text)
    assert why in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_hostile_descriptor_is_refused() -> None:
    """One that names types that aren't there, imports what isn't known, or is cut."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="x.proto", syntax="proto3")
    field = file.message_type.add(name="A").field.add(name="a", number=1, label=1, type=11)
    field.type_name = ".Nowhere"
    unknown = b64encode(file.SerializeToString()).decode()
    with pytest.raises(InvalidSchema, match="it is no schema of Protobuf"):
        parse(PROTOBUF, unknown)
    with pytest.raises(InvalidSchema, match="neither"):
        parse(PROTOBUF, b64encode(file.SerializeToString()[:-3]).decode())
    file.dependency.append("/etc/passwd")
    with pytest.raises(InvalidSchema, match="imports /etc/passwd, which isn't among its ref"):
        parse(PROTOBUF, b64encode(file.SerializeToString()).decode())


def test_a_registry_without_protobuf_does_not_blame_the_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor does it call a schema invalid that it can't read."""
    tree = SchemaTree(Schema("PROTOBUF", 'syntax = "proto3"; message Lacking {}'), {})
    for module in ("grpc_tools", "google.protobuf"):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(Refused, match=r"^this registry has no Protobuf: it needs the package"):
            parse_tree(tree)

"""The records of ``_schemas`` are byte for byte those of Confluent's registry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.registry.records import (
    CLEAR_SUBJECT,
    CONFIG,
    CONTEXT,
    DELETE_SUBJECT,
    MODE,
    NOOP,
    SCHEMA,
    InvalidRecord,
    Key,
    Reference,
    RegistryRecord,
    Schema,
    SchemaValue,
    decode,
    encode,
)

RECORDS = [
    (
        RegistryRecord(
            Key(SCHEMA, "a-value", 1), SchemaValue("a-value", 1, 7, Schema("AVRO", '"string"'))
        ),
        b'{"keytype":"SCHEMA","subject":"a-value","version":1,"magic":1}',
        b'{"subject":"a-value","version":1,"id":7,"schema":"\\"string\\"","deleted":false}',
    ),
    (
        RegistryRecord(
            Key(SCHEMA, ":.b:a", 2),
            SchemaValue(
                ":.b:a", 2, 7, Schema("PROTOBUF", "é", (Reference("x.proto", "x", 3),)), True
            ),
        ),
        b'{"keytype":"SCHEMA","subject":":.b:a","version":2,"magic":1}',
        '{"subject":":.b:a","version":2,"id":7,"schemaType":"PROTOBUF","references":[{"name":'
        '"x.proto","subject":"x","version":3}],"schema":"é","deleted":true}'.encode(),
    ),
    (
        RegistryRecord(Key(CONFIG), {"compatibilityLevel": "FULL"}),
        b'{"keytype":"CONFIG","magic":0}',
        b'{"compatibilityLevel":"FULL"}',
    ),
    (
        RegistryRecord(Key(MODE, "a"), {"subject": "a", "mode": "READONLY"}),
        b'{"keytype":"MODE","subject":"a","magic":0}',
        b'{"subject":"a","mode":"READONLY"}',
    ),
    (
        RegistryRecord(Key(DELETE_SUBJECT, "a"), {"subject": "a", "version": 3}),
        b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}',
        b'{"subject":"a","version":3}',
    ),
    (
        RegistryRecord(Key(CLEAR_SUBJECT, "a"), {"subject": "a"}),
        b'{"keytype":"CLEAR_SUBJECT","subject":"a","magic":0}',
        b'{"subject":"a"}',
    ),
    (
        RegistryRecord(Key(CONTEXT, context=".b"), {"tenant": "default", "context": ".b"}),
        b'{"keytype":"CONTEXT","tenant":"default","context":".b","magic":0}',
        b'{"tenant":"default","context":".b"}',
    ),
    (RegistryRecord(Key(NOOP)), b'{"keytype":"NOOP","magic":0}', None),
    (
        RegistryRecord(Key(SCHEMA, "a", 1)),
        b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
        None,
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), RECORDS)
def test_bytes_of_each_record(record: RegistryRecord, key: bytes, value: bytes | None) -> None:
    """What is written is what the other registry writes, and is read as what it was."""
    assert encode(record) == (key, value)
    assert decode(key, value) == record


def test_what_a_newer_registry_writes_is_kept() -> None:
    """Properties that kwire has no use for are written again with the version."""
    value = (
        b'{"subject":"a","version":1,"id":1,"guid":"g","schema":"\\"int\\"",'
        b'"metadata":{"properties":{"owner":"me"}},"deleted":false,"ts":17,"md5":"x"}'
    )
    record = decode(b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', value)
    _, again = encode(record)
    assert again is not None
    assert b'"guid":"g"' in again
    assert b'"ts":17' in again
    assert b'"owner":"me"' in again
    assert b"md5" not in again, "it would be that of another text"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"", None),
        (b"[]", None),
        (b'{"keytype":7}', None),
        (b'{"keytype":"SCHEMA","subject":"a"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"a","version":"1"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b'{"schema":"x"}'),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b'{"id":true,"schema":"x"}'),
        (b'{"keytype":"SCHEMA","subject":"a","version":0}', b'{"id":1,"schema":"x"}'),
        (
            b'{"keytype":"SCHEMA","subject":"a","version":1}',
            b'{"id":1,"schema":"x","references":[{"name":"n"}]}',
        ),
        (b'{"keytype":"CONFIG","subject":{}}', b"{}"),
        (b'{"keytype":"CONFIG"}', b"[" * 100_000),
    ],
)
def test_what_is_no_record(key: bytes | None, value: bytes | None) -> None:
    """Whoever may write to the topic can't end the registry."""
    with pytest.raises(InvalidRecord):
        decode(key, value)


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_bytes_are_a_record_or_none(key: bytes, value: bytes | None) -> None:
    """Any bytes are read, or are InvalidRecord."""
    try:
        record = decode(key, value)
    except InvalidRecord:
        return
    assert decode(*encode(record)).key == record.key

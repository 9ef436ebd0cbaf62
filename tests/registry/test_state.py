"""What records add up to, in any order in which a topic may have them after compaction."""

from hypothesis import given
from hypothesis import strategies as st

from kwire.registry.records import (
    CLEAR_SUBJECT,
    CONFIG,
    DELETE_SUBJECT,
    SCHEMA,
    Key,
    Reference,
    RegistryRecord,
    Schema,
    SchemaValue,
)
from kwire.registry.state import Place, RegistryState, mark, tombstone


def version(
    subject: str, number: int, known: int, text: str = "", *uses: Reference, deleted: bool = False
) -> RegistryRecord:
    """The record of a version."""
    schema = Schema("AVRO", text or f'"{known}"', uses)
    value = SchemaValue(subject, number, known, schema, deleted)
    return RegistryRecord(Key(SCHEMA, subject, number), value)


def state_of(*records: RegistryRecord) -> RegistryState:
    """The state after these records."""
    state = RegistryState()
    for record in records:
        state.apply(record)
    return state


def test_an_id_has_one_schema() -> None:
    """A record that gives an id to another schema is left out, as in Confluent's registry."""
    state = state_of(version("a", 1, 1, '"int"'))
    assert not state.apply(version("b", 1, 1, '"long"'))
    assert state.subjects(":*:") == ["a"]
    assert state.apply(version("b", 1, 1, '"int"'))
    assert [value.subject for value in state.places(".", 1)] == ["a", "b"]


def test_contexts_have_ids_of_their_own() -> None:
    """The same id is another schema in another context."""
    state = state_of(version("a", 1, 5, '"int"'), version(":.b:a", 1, 5, '"long"'))
    schemas = [state.schema(context, 5) for context in (".", ".b")]
    assert [one.text for one in schemas if one is not None] == ['"int"', '"long"']
    assert state.contexts == [".", ".b"]
    assert state.subjects("") == ["a"]
    assert state.subjects(":.b:") == [":.b:a"]
    assert state.subjects(":*:a") == [":.b:a", "a"]


def test_soft_deletion_keeps_the_id() -> None:
    """Consumers go on to read what was written with it; deleted for good, it is gone."""
    state = state_of(version("a", 1, 1), version("a", 2, 2))
    state.apply(RegistryRecord(Key(DELETE_SUBJECT, "a"), {"subject": "a", "version": 2}))
    assert state.versions("a") == []
    assert [one.version for one in state.versions("a", deleted=True)] == [1, 2]
    assert state.find(".", mark(Schema("AVRO", '"1"'))) == 1
    state.apply(tombstone(Place("a", 1)))
    assert state.schema(".", 1) is None
    assert state.find(".", mark(Schema("AVRO", '"1"'))) is None
    assert state.last_id(".") == 2, "its id isn't given again"


def test_clearing_takes_what_is_soft_deleted() -> None:
    """Only within the scope."""
    records = [version(name, 1, 1, deleted=True) for name in ("a", ":.b:a", ":.b:c")]
    state = state_of(*records, version(":.b:a", 2, 2))
    state.apply(RegistryRecord(Key(CLEAR_SUBJECT, ":.b:"), {}))
    assert [one.version for one in state.versions(":.b:a", deleted=True)] == [2]
    assert state.subjects(":*:", deleted=True) == [":.b:a", "a"]


def test_users_of_a_version_are_those_that_are_not_deleted() -> None:
    """In the context of the schema that refers to it, unless the reference names another one."""
    use, far = Reference("n", "base", 1), Reference("n", ":.b:base", 1)
    state = state_of(
        version("base", 1, 1), version(":.b:base", 1, 1), version("a", 1, 2, "a", use, far)
    )
    state.apply(version(":.b:a", 1, 2, "b", use))
    assert state.used_by(Place("base", 1)) == [Place("a", 1)]
    assert state.used_by(Place(":.b:base", 1)) == [Place("a", 1), Place(":.b:a", 1)]
    state.apply(version("a", 1, 2, "a", use, far, deleted=True))
    assert state.used_by(Place("base", 1)) == []


changes = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", ":.x:a"]),
        st.integers(1, 3),
        st.integers(0, 3),
        st.sampled_from(["put", "delete", "tombstone", "delete subject"]),
    ),
    max_size=30,
)


@given(changes)
def test_ids_marks_and_places_agree(steps: list[tuple[str, int, int, str]]) -> None:
    """After any records: an id names a schema as long as versions have it, and so does its mark."""
    state = RegistryState()
    for subject, number, known, what in steps:
        if what == "tombstone":
            state.apply(tombstone(Place(subject, number)))
        elif what == "delete subject":
            body = {"subject": subject, "version": number}
            state.apply(RegistryRecord(Key(DELETE_SUBJECT, subject), body))
        else:
            state.apply(version(subject, number, known, deleted=what == "delete"))
    chars = 0
    for context in state.contexts:
        for known in range(4):
            schema, places = state.schema(context, known), state.places(context, known)
            assert (schema is None) == (not places)
            found = state.find(context, mark(Schema("AVRO", f'"{known}"')))
            assert found == (known if places else None)
            chars += schema.chars if schema else 0
    assert state.text_chars == chars
    for value in state.values():
        numbers = [one.version for one in state.versions(value.subject, deleted=True)]
        assert numbers == sorted(numbers)


def test_versions_are_in_their_order_whatever_order_the_topic_has() -> None:
    """Compaction leaves a version where it was last written."""
    state = state_of(*(version("a", one, one) for one in (3, 1, 4, 2)))
    assert [value.version for value in state.versions("a")] == [1, 2, 3, 4]
    state.apply(version("a", 2, 2, deleted=True))
    assert [value.version for value in state.versions("a", deleted=True)] == [1, 2, 3, 4]


def test_a_schema_that_is_gone_is_found_by_none_of_its_marks() -> None:
    """Neither by that of its text nor by that of its canonical text, and others are found."""
    state = state_of(version("a", 1, 1, '{"type":"int"}'), version("a", 2, 2))
    canonical = mark(Schema("AVRO", '"int"'))
    state.identify(".", 1, canonical)
    stored = mark(Schema("AVRO", '{"type":"int"}'))
    assert [state.find(".", one) for one in (canonical, stored)] == [1, 1]
    state.apply(tombstone(Place("a", 1)))
    assert [state.find(".", one) for one in (canonical, stored)] == [None, None]
    assert state.find(".", mark(Schema("AVRO", '"2"'))) == 2


def test_a_level_that_no_registry_has_is_the_default() -> None:
    """It could only come from somebody who writes to the topic."""
    state = state_of(RegistryRecord(Key(CONFIG, "a"), {"compatibilityLevel": ["x"]}))
    assert state.level("a") == "BACKWARD"

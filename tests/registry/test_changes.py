"""The rules of Confluent's registry for its changes: modes, deletions, ids, settings."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kwire.registry import changes
from kwire.registry.changes import Registration
from kwire.registry.records import MAX_NUMBER, Reference, RegistryRecord, Schema, decode, encode
from kwire.registry.refusals import Refused
from kwire.registry.state import RegistryState, mark


class Changing:
    """A state that takes the records of changes, as they come back from the topic."""

    def __init__(self) -> None:
        self.state = RegistryState()

    def write(self, records: Sequence[RegistryRecord]) -> None:
        """Apply records."""
        for record in records:
            assert self.state.apply(decode(*encode(record)))

    def register(self, subject: str, text: str, *uses: Reference, **given: int) -> int:
        """Register a schema; its id."""
        schema = Schema("AVRO", text, uses)
        asked = Registration(subject, schema, given.get("number"), given.get("version"))
        changes.check_may_register(self.state, asked)
        context = subject.split(":")[1] if subject.startswith(":") else "."
        records = changes.register(self.state, asked, self.state.find(context, mark(schema)))
        self.write(records)
        value: Any = records[-1].value
        return int(value.id)

    def delete(self, subject: str, version: int = 0, *, permanent: bool = False) -> list[int]:
        """Delete a subject, or a version; the versions."""
        if version:
            self.write(changes.delete_version(self.state, subject, version, permanent=permanent))
            return [version]
        numbers, records = changes.delete_subject(self.state, subject, permanent=permanent)
        self.write(records)
        return numbers

    def mode(self, scope: str, mode: str, *, force: bool = False) -> None:
        """Set a mode."""
        self.write(changes.set_mode(self.state, scope, mode, force=force))


def code_of(action: Callable[[], object]) -> int:
    """The code with which a change is refused."""
    with pytest.raises(Refused) as refused:
        action()
    return refused.value.code


def test_ids_are_the_same_under_all_subjects() -> None:
    """And count on; a soft-deleted version that comes again has its old id and a new number."""
    on = Changing()
    assert [on.register("a", "1"), on.register("a", "2"), on.register("b", "1")] == [1, 2, 1]
    assert on.register(":.x:a", "2") == 1, "another context has ids of its own"
    on.delete("a", 1)
    assert on.register("a", "1") == 1
    assert [one.version for one in on.state.versions("a", deleted=True)] == [2, 3]


def test_deletion_is_soft_before_it_is_permanent() -> None:
    """With Confluent's codes for each mistake."""
    on = Changing()
    assert code_of(lambda: on.delete("a")) == 40401
    on.register("a", "1")
    on.register("a", "2")
    assert code_of(lambda: on.delete("a", 3)) == 40402
    assert code_of(lambda: on.delete("a", permanent=True)) == 40405
    assert code_of(lambda: on.delete("a", 1, permanent=True)) == 40407
    assert on.delete("a", 1) == [1]
    assert code_of(lambda: on.delete("a", 1)) == 40406
    assert on.delete("a") == [2]
    assert code_of(lambda: on.delete("a")) == 40404
    assert on.delete("a", permanent=True) == [1, 2]
    assert code_of(lambda: on.delete("a", permanent=True)) == 40401
    assert on.register("a", "3") == 3
    assert [one.version for one in on.state.versions("a")] == [1], "the subject begins anew"


def test_what_is_referred_to_stays() -> None:
    """Until the schema that refers to it is deleted."""
    on = Changing()
    on.register("base", "1")
    on.register("user", "2", Reference("n", "base", 1))
    assert code_of(lambda: on.delete("base")) == 42206
    assert code_of(lambda: on.delete("base", 1)) == 42206
    on.delete("user")
    assert on.delete("base") == [1]


def test_settings_end_with_the_last_version() -> None:
    """As in Confluent's registry, also when the versions are deleted one by one."""
    for whole in (True, False):
        on = Changing()
        on.register("a", "1")
        on.write(changes.set_config(on.state, "a", {"compatibility": "none"}))
        on.mode("a", "READWRITE")
        assert on.state.level("a") == "NONE"
        on.delete("a", 0 if whole else 1)
        assert on.state.level("a") == "BACKWARD"
        assert on.state.own_mode("a") is None


def test_modes() -> None:
    """READONLY refuses changes; IMPORT wants ids, and a scope that is empty."""
    on = Changing()
    on.register("a", "1")
    assert code_of(lambda: on.register("a", "2", number=7)) == 42205
    on.mode("", "READONLY")
    assert code_of(lambda: on.register("a", "2")) == 42205
    assert code_of(lambda: on.delete("a")) == 42205
    assert code_of(lambda: on.mode("", "WRITEONLY")) == 42204
    on.mode("", "READWRITE")
    assert code_of(lambda: on.mode("a", "IMPORT")) == 42205
    on.mode("a", "IMPORT", force=True)
    assert code_of(lambda: on.register("a", "2")) == 42205
    assert on.register("a", "2", number=70, version=9) == 70
    assert code_of(lambda: on.register("a", "3", number=70)) == 42205
    assert code_of(lambda: on.register("a", "3", number=71, version=9)) == 42205
    assert on.register("b", "3") == 71, "ids count on from the largest"


def test_import_forgets_what_is_soft_deleted() -> None:
    """So that the imported schemas may have those ids."""
    on = Changing()
    on.register(":.x:a", "1")
    on.delete(":.x:a")
    on.mode(":.x:", "IMPORT")
    assert on.register(":.x:a", "other", number=1) == 1
    assert on.state.mode(":.x:a") == "IMPORT"
    assert on.state.mode("a") == "READWRITE"


def test_a_version_is_the_next_one() -> None:
    """A client that gives another one has missed something."""
    on = Changing()
    assert code_of(lambda: on.register("a", "1", version=2)) == 42201
    on.register("a", "1", version=1)
    assert code_of(lambda: on.register("a", "2", version=1)) == 42201


def test_settings() -> None:
    """The nearest counts: of the subject, its context, or all."""
    on = Changing()
    on.write(changes.set_config(on.state, "", {"compatibility": "FULL"}))
    on.write(changes.set_config(on.state, ":.x:", {"compatibility": "NONE"}))
    on.write(changes.set_config(on.state, "a", {"compatibility": "FORWARD", "normalize": True}))
    assert [on.state.level(one) for one in ("a", "b", ":.x:a")] == ["FORWARD", "FULL", "NONE"]
    assert on.state.normalizes("a")
    on.write(changes.set_config(on.state, "a", {"compatibility": "backward"}))
    assert on.state.normalizes("a"), "what a change doesn't name stays"
    assert code_of(lambda: changes.set_config(on.state, "a", {"compatibility": "best"})) == 42203
    assert code_of(lambda: changes.set_config(on.state, "a", {})) == 42203
    assert code_of(lambda: changes.set_config(on.state, "a", {"alias": "b"})) == 422
    on.write(changes.delete_config(on.state, "a"))
    assert on.state.level("a") == "FULL"
    assert code_of(lambda: changes.delete_config(on.state, "a")) == 40401


def test_everything_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may register can't take all memory."""
    on = Changing()
    on.register("a", "1")
    with monkeypatch.context() as small:
        small.setattr(changes, "MOST_SUBJECTS", 1)
        assert code_of(lambda: on.register("b", "1")) == 42209
    with monkeypatch.context() as small:
        small.setattr(changes, "MOST_VERSIONS", 1)
        assert code_of(lambda: on.register("a", "2")) == 42209
    with monkeypatch.context() as small:
        small.setattr(changes, "MOST_TEXT_CHARS", 3)
        assert code_of(lambda: on.register("a", "234")) == 42209
    with monkeypatch.context() as small:
        small.setattr(changes, "MOST_TEXT_CHARS", 100)
        long = Registration("a", Schema("AVRO", "5", more=f'{{"metadata":"{"x" * 100}"}}'))
        assert code_of(lambda: changes.register(on.state, long, None)) == 42209
    with monkeypatch.context() as small:
        small.setattr(changes, "MOST_SETTINGS", 0)
        assert code_of(lambda: on.mode("a", "READONLY")) == 42209
    assert on.register("b", "2") == 2


def test_what_was_imported_with_the_last_number_leaves_none_to_give() -> None:
    """A larger number would be a record that every reader leaves out."""
    on = Changing()
    on.mode("a", "IMPORT")
    assert on.register("a", "1", number=MAX_NUMBER, version=MAX_NUMBER) == MAX_NUMBER
    on.mode("a", "READWRITE")
    assert code_of(lambda: on.register("a", "1")) == 42209
    assert code_of(lambda: on.register("b", "2")) == 42209
    assert on.register("b", "1") == MAX_NUMBER

"""The tests and the bench run the newest Apache Kafka, or another one that they are tested with."""

import pytest

from compat_tests.kafka_version import SUPPORTED, version_asked_for


def test_the_newest_one_without_asking() -> None:
    """An empty variable, as make hands on, is none."""
    assert version_asked_for({}) == version_asked_for({"KAFKA_VERSION": ""}) == "4.4.0"


def test_the_one_asked_for() -> None:
    """Each of those that the compat tests pass on."""
    assert [version_asked_for({"KAFKA_VERSION": one}) for one in SUPPORTED] == list(SUPPORTED)


def test_another_ends_the_program_with_one_line() -> None:
    """The line says which there are."""
    with pytest.raises(SystemExit) as ended:
        version_asked_for({"KAFKA_VERSION": "4.2.0"})
    assert str(ended.value) == "KAFKA_VERSION=4.2.0: it can be 4.4.0 or 4.3.1"

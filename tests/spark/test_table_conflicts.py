"""What becomes of a change of a table that isn't made at once."""

from typing import Any, cast

import pytest

from kwire.spark.sinks.table_conflicts import ATTEMPTS, altered, retried


class AnalysisException(Exception):
    """As Spark calls its answer to a statement that can't be."""


class ConcurrentModificationException(Exception):
    """As Delta calls a conflict."""


class ByJava(Exception):
    """An error that Spark doesn't know, with Java's own behind it."""

    def __init__(self, name: str, text: str = "and its stack") -> None:
        super().__init__(f"An error occurred while calling o1.sql.\n: {text}")
        self.java_exception = self
        self._name = name

    def getClass(self) -> "ByJava":
        """As Java."""
        return self

    def getName(self) -> str:
        """As Java."""
        return self._name

    def getMessage(self) -> str:
        """As Java."""
        return "no\n  such  right"


class Session:
    """A session in which each statement has one outcome after the other."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.left = list(outcomes)

    def sql(self, statement: str) -> None:
        """Run a statement."""
        outcome = self.left.pop(0)
        if outcome is not None:
            raise outcome


def test_a_conflict_is_tried_again() -> None:
    """As often as a write of rows is."""
    session = Session(*[ConcurrentModificationException("later")] * (ATTEMPTS - 1), None)
    assert altered(cast(Any, session), "ALTER …") == ""
    assert not session.left


def test_a_row_that_fails_is_no_conflict() -> None:
    """Whatever is called as conflicts are: it would fail each time."""
    texts = "[USER_RAISED_EXCEPTION] value: it is a message ConcurrentOrder, not Order"
    tries: list[int] = []

    def write() -> None:
        tries.append(1)
        raise RuntimeError(f"Job aborted: Task 0 failed: {texts}")

    with pytest.raises(RuntimeError):
        retried(write)
    assert len(tries) == 1


def test_a_refusal_is_an_answer() -> None:
    """In one line, also where only Java knows what it is."""
    found = altered(cast(Any, Session(AnalysisException("[X] no\nfor good"))), "ALTER …")
    assert found == "[X] no for good"
    by_java = ByJava("org.apache.iceberg.exceptions.ForbiddenException")
    assert altered(cast(Any, Session(by_java)), "ALTER …") == "no such right"


def test_what_may_pass_ends_the_run() -> None:
    """The next one tries again: no record becomes a dead letter because of a broken network."""
    for error in (ConnectionError("away"), ByJava("java.net.SocketTimeoutException")):
        with pytest.raises(type(error)):
            altered(cast(Any, Session(error)), "ALTER …")


@pytest.mark.parametrize(
    "conflict",
    [
        ConcurrentModificationException("files were added"),
        ByJava("java.lang.IllegalStateException", "the table has been concurrently modified."),
    ],
)
def test_what_counts_as_a_conflict(conflict: Exception) -> None:
    """Delta names it; Iceberg says so if a statement's plan meets it before its commit does."""
    session = Session(conflict, None)
    assert altered(cast(Any, session), "ALTER …") == ""
    assert not session.left

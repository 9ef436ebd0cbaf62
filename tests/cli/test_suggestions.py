"""What a mistyped word was to be."""

import pytest

from kwire.cli.suggestions import did_you_mean


@pytest.mark.parametrize("word", ["ordes", "oders", "Orders", "order", "ordersx"])
def test_a_slip_is_seen(word: str) -> None:
    """A letter too few or too many, or one of another case."""
    assert did_you_mean(word, ["payments", "orders"]) == ": did you mean orders?"


def test_another_id_is_no_slip() -> None:
    """Programs name groups so: nobody would mean the other one."""
    assert did_you_mean("group-2d9c2355d0", ["group-2f191673d8", "group-9b1d0c2e77"]) == ""

"""The bench of attacks on TLS and logins: its table and its options; nothing is measured."""

import math

import pytest

from bench.hostile_table import ALONE, CONTROL
from bench.hostile_tls import NO_ANSWER, NOT_POSSIBLE, Waits, options_of, rows_of, summary

CALM = Waits(0.5, 2.0, 9.0, 20.0)


def _results(attacked):
    """A table with one attack."""
    return {ALONE: {"kwire": CALM}, CONTROL: {"kwire": CALM}, "attack": {"kwire": attacked}}


def test_the_table_and_the_summary():
    """Waits in milliseconds, the attacker's pace, and how many attacks are within the aims."""
    results = _results(Waits(0.7, 9.0, 120.0, 44.4, 1234.5, 3.2))
    assert rows_of(results)[-1] == ["attack", "0.70", "9.00", "120", "44", "1,234", "3"]
    assert "in 1 of 1 attacks (1: at most" in summary(results)
    assert "above 100 ms in 0." in summary(results)


def test_a_broker_that_gave_no_answer():
    """It is no number, and within no aim."""
    results = _results(NO_ANSWER)
    assert rows_of(results)[-1] == ["attack", "no answer", "-", "-", "-", "-", "-"]
    assert "in 0 of 1 attacks" in summary(results)
    missing = _results(NOT_POSSIBLE)
    assert rows_of(missing)[-1] == ["attack", "not possible", "-", "-", "-", "-", "-"]
    assert "in 0 of 0 attacks" in summary(missing)
    refused = _results(CALM._replace(login_ms=math.inf))
    assert rows_of(refused)[-1][4] == "refused"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "nosuch"], "no attack's name has nosuch"),
        (["--publish", "--only", "TLS"], "--publish needs the whole table"),
    ],
)
def test_what_is_not_measured_is_said(arguments, said, capsys):
    """Before anything is started."""
    with pytest.raises(SystemExit):
        options_of(arguments)
    assert said in capsys.readouterr().err

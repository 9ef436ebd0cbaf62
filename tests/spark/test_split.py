"""Which batches are expected to have no dead letters."""

from kwire.spark.split import AFTER_DEAD_LETTERS, Expected


def test_batches_after_one_with_dead_letters_may_have_some_too() -> None:
    """So many after the last one that had; a topic that is created again has other batch numbers,
    which don't matter.
    """
    expected = Expected()
    assert expected.has_none
    for dead_letters in (3, 0, 1):
        expected.note(dead_letters)
        assert not expected.has_none
    for _ in range(AFTER_DEAD_LETTERS - 1):
        expected.note(0)
        assert not expected.has_none
    expected.note(0)
    assert expected.has_none
    expected.note(0)
    assert expected.has_none

"""What a mistyped word was to be: of a command, an option, a topic or a setting."""

from collections.abc import Iterable

LIKE = 0.75
"""How much of two words is the same, if one may be the other: ids of programs differ by more."""


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like this one; None if none is."""
    from difflib import get_close_matches

    by_lower = {one.lower(): one for one in known}
    close = get_close_matches(word.lower(), by_lower, n=1, cutoff=LIKE)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``: did you mean orders?``, the end of a sentence; empty if no known word is like this."""
    found = closest(word, known)
    return f": did you mean {found}?" if found is not None else ""

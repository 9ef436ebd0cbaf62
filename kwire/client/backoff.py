"""Pauses that grow from one attempt to the next, with jitter (KIP-580, KIP-144).

Many clients that lost the same broker must not come back in the same moment: each pause is a random
part, between a half and the whole, of a length that doubles up to a maximum.
"""

from random import Random


class Backoff:
    """The pauses between the attempts of one operation, in seconds."""

    __slots__ = ("_first_s", "_longest_s", "_next_s", "_random")

    def __init__(self, first_s: float, longest_s: float, random: Random) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._random = random
        self._next_s = first_s

    def next_s(self) -> float:
        """The next pause."""
        length_s = self._next_s
        self._next_s = min(length_s * 2, self._longest_s)
        return length_s * (0.5 + self._random.random() / 2)

    def reset(self) -> None:
        """Begin with the first pause again, after a success."""
        self._next_s = self._first_s

"""The bench of TLS: its order and its tables; nothing is measured."""

from bench.publish import markdown_table
from bench.tls import KINDS, Measured, in_turns, part


class Subject:
    """A broker that notes when it is measured."""

    def __init__(self, name, order, rate):
        self.name = name
        self._order = order
        self._rate = rate

    def measure(self, kind, seconds):
        """A result that depends on the broker alone."""
        self._order.append((kind, self.name))
        return Measured(self._rate * seconds, 0.5)


def test_brokers_are_measured_in_turns():
    """Each load on one and at once on the other, and none is always the first."""
    order = []
    found = in_turns([Subject("kwire", order, 2), Subject("Kafka", order, 1)], 2, 3.0)
    assert {name: len(runs["fetch"]) for name, runs in found.items()} == {"kwire": 2, "Kafka": 2}
    pairs = [order[n : n + 2] for n in range(0, len(order), 2)]
    assert all(first[0] == second[0] and first[1] != second[1] for first, second in pairs)
    firsts = [first[1] for first, _ in pairs]
    assert set(firsts[len(KINDS) : 2 * len(KINDS)]) == {"kwire"}
    assert set(firsts[2 * len(KINDS) :]) == {"Kafka"}
    assert len(pairs) == 3 * len(KINDS)


def test_the_part_of_the_document():
    """The medians, and how many times as fast the first is as the second."""
    found = in_turns([Subject("kwire", [], 2), Subject("Kafka", [], 1)], 1, 3.0)
    text = part(found, 1, 3.0)
    assert "| fetch | MB/s | 6 (0.50 per 1000) | 3 (0.50 per 1000) | 2.00 |" in text


def test_a_table():
    """As GitHub draws it."""
    assert markdown_table([["a", "b"], ["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"

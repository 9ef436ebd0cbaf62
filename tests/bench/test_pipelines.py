"""The bench of pipelines: its arithmetic; nothing is measured."""

from bench.connect import Written
from bench.pipelines import BY_HAND, KWIRE, Measured, connect_part, is_missed, ratio_of, rows_of


def test_the_best_round_of_each_way_counts() -> None:
    """A pipeline that takes longer has a ratio below 1; 10 % more time and a bit miss the bar."""
    found = [
        Measured("stock", "json", BY_HAND, 0, 100, 0.1, 0.1),  # the warm-up doesn't count
        Measured("stock", "json", BY_HAND, 1, 100, 2.0, 3.0),
        Measured("stock", "json", BY_HAND, 2, 100, 1.0, 4.0),
        Measured("stock", "json", KWIRE, 1, 100, 1.25, 2.0),
        Measured("stock", "json", KWIRE, 2, 100, 5.0, 9.0),
        Measured("stock", "avro", BY_HAND, 1, 100, 2.0, 3.0),
        Measured("stock", "avro", KWIRE, 1, error="it has written no table"),
    ]
    assert ratio_of(found, "json", "stock") == 0.8
    assert is_missed(found, "json", "stock")
    _, row = rows_of(found, 100)
    assert row[2:] == ["100", "80", "0.80", "≥ 0.9 not met", "4.0", "2.0"]


def test_kafka_connect_is_told_for_a_million_records() -> None:
    """By lines and seconds, and its processor time."""
    said = connect_part(Written(1000, 2.0, 0.5))
    assert "| JSON to lines of text, by Kafka Connect | 500 | 500.0 |" in said

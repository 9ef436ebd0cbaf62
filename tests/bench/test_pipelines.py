"""The bench of pipelines: its arithmetic; nothing is measured."""

from bench.connect import Written
from bench.pipelines import BY_HAND, PIPELINE, Job, connect_part, part, ratios


def test_the_best_round_of_each_way_counts() -> None:
    """A pipeline that takes longer has a ratio below 1; 10 % more time and a bit miss the bar."""
    jobs = [
        Job("JSON to Parquet", BY_HAND, 1, 100, 2.0, 3.0),
        Job("JSON to Parquet", BY_HAND, 2, 100, 1.0, 4.0),
        Job("JSON to Parquet", PIPELINE, 1, 100, 1.25, 2.0),
        Job("JSON to Parquet", PIPELINE, 2, 100, 5.0, 9.0),
    ]
    assert ratios(jobs) == {"JSON to Parquet": 0.8}
    said = part(jobs, 100, 2)
    assert "| JSON to Parquet | 100 | 80 | 0.80 | ≥ 0.9 not met | 3.0 | 2.0 |" in said
    assert "100 records, best of 2" in said


def test_the_best_run_of_kafka_connect_counts() -> None:
    """By lines and seconds; the processor time is told for a million records."""
    said = connect_part([Written(1000, 2.0, 0.5), Written(500, 0.5, 0.5)])
    assert "| JSON to lines of text, by Kafka Connect | 1,000 | 500.0 |" in said

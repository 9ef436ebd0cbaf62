"""Tests of programs that others have built on Kafka's clients: docs/WHAT-RUNS.md lists them."""

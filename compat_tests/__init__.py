"""Tests that any Kafka broker has to pass: kwire by default, Apache Kafka to prove the tests."""

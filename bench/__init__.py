"""Measuring brokers: one table with a column for each broker."""

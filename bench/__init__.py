"""Measuring brokers: one table, a column for each of them."""

"""Pipelines under kills: driver, Python workers or executors, and the broker, again and again."""

"""A schema registry beside the topics: Confluent's REST API over the topic ``_schemas``.

- ``schema_types`` and ``compatibility`` parse schemas and compare them.
- ``records``, ``state``, ``changes``, ``reading``, ``names``, ``refusals`` are pure: the records of
  the topic, what they add up to, the records that a request adds, and the answers.
- ``registry`` answers requests: it parses schemas in threads, writes one change at a time, and
  applies a record once it is written.
- ``journal`` is where records are kept: in ``_schemas`` (``topic_journal``), or in memory, for
  tests.
- ``app`` is the HTTP interface, which Confluent's clients use; ``port`` serves it in a broker, in a
  thread of its own.
"""

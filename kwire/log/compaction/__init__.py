"""Compaction: for every key, a compacted log keeps the last record, and little else.

A *clean* is one pass of compaction over one log. Its steps are synchronous and use no network:

1. ``manager`` chooses the dirtiest log (``plan``) and makes a ``job`` for it.
2. ``cleaner`` reads the keys of the dirty part into an ``offset_map``. Then it goes through all
   segments up to the end of that part. ``batch_filter`` decides which records of each batch stay,
   and the result is written as ``cleaned_segment``s.
3. ``swap`` replaces the old segments by the cleaned ones.

Step 2 runs in a process of its own (``worker``), which only reads and writes files.
``kwire.broker.compaction`` starts that process.

Source: LogCleaner, Cleaner and LogCleanerManager of Kafka; KIP-58, KIP-354, KIP-534.
"""

"""Compaction: of every key a compacted log keeps the last value, and little else.

The way of one clean, all of it synchronous and without a network:

``manager`` picks the dirtiest log of all (``plan``) and makes a ``job`` of it → ``cleaner`` reads
the dirty part into an ``offset_map``, goes through all segments up to its end, lets
``batch_filter`` decide what stays of each batch, and writes ``cleaned_segment``s → ``swap`` puts
them in the place of the old ones.

Everything between the job and the swap happens in a process of its own (``worker``), which knows
nothing but the files; see ``kwire.broker.compaction`` for who starts it.

Source: LogCleaner, Cleaner and LogCleanerManager of Kafka; KIP-58, KIP-354, KIP-534.
"""

"""The log: Kafka's files under Kafka's names, without network and without an event loop.

``manager`` opens data directories, ``partition_log`` is one partition, ``segment`` one of its
files. Everything is synchronous; time comes in as ``now_ms``; file calls go through ``disk``.
"""

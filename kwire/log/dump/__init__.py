"""Printing the files of a log, in the words of Apache Kafka's DumpLogSegments.

- ``lines``: a line of output, as text and as fields for JSON.
- ``log_files``: segments and KRaft snapshots. ``control_records``: the content of control batches.
- ``index_dump``: the indexes, and whether they match their segment.
- ``small_files``: producer snapshots, checkpoints, ``partition.metadata``, ``meta.properties``.
- ``dump``: chooses one of these by the file's name.

A dump writes nothing and needs no lock.
"""

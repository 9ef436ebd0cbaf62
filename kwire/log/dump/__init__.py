"""Showing the files of a log, as Apache Kafka's DumpLogSegments does and in the same words.

- ``lines``: a line of output, as text and as the fields that JSON has.
- ``log_files``: segments and KRaft snapshots; ``control_records``: what control batches say.
- ``index_dump``: the indexes, and whether they fit their segment.
- ``small_files``: producer snapshots, checkpoints, ``partition.metadata``, ``meta.properties``.
- ``dump``: which of these a file needs.

Nothing is written, and no lock is needed.
"""

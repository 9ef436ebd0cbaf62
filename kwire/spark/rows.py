"""The columns that a decoded row has beside those of its own value.

A decoded DataFrame has the columns below, then ``ROW``, a struct with the value's columns. A record
that can't be decoded has a null ``ROW`` and a text in ``ERROR``; it becomes a dead letter. A record
without a value (a tombstone) has a null ``ROW`` and no error, and is marked by ``TOMBSTONE``.

Transforms and sinks see the rows without an error, with the struct's columns beside those below. A
transform may drop any column. A sink that names its files by offsets needs TOPIC, PARTITION and
OFFSET. A table holds those of the columns that ``[sink] metadata`` asks for.
"""

TOPIC = "_topic"
"""string"""

PARTITION = "_partition"
"""int"""

OFFSET = "_offset"
"""long"""

TIMESTAMP = "_timestamp"
"""timestamp: the record's, of its producer or of the broker's log"""

KEY = "_key"
"""binary, or what ``[decode] key`` makes of it"""

VALUE = "_value"
"""binary: the record's value as it came; dropped before transforms, kept for dead letters"""

HEADERS = "_headers"
HEADERS_TYPE = "array<struct<key: string, value: binary>>"
"""or null"""

TOMBSTONE = "_tombstone"
"""boolean: the record has no value, which deletes its key"""

ERROR = "_error"
"""string: why the record can't be decoded, or null"""

ROW = "_row"
"""struct: the value's columns"""

STAMP = "timestampMs"
"""long: a record's timestamp in ms as it is, beside the connector's columns, where one has it"""

REASON = "unreadable"
"""string: why a record can't be read, beside the connector's columns, where one has it"""

CHANGE = "_debezium"
"""struct<op: string, unchanged: array<string>>: what an event of Debezium changes, and the
columns whose values it lacks, because they stay as they were; of that format only"""

METADATA = (TOPIC, PARTITION, OFFSET, TIMESTAMP, KEY, HEADERS, TOMBSTONE, CHANGE)
"""What rows keep beside the value's columns until the sink drops what isn't asked for."""

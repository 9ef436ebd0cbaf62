"""The metadata of an Apache Kafka cluster, as its KRaft controllers keep it; for reading.

- ``topic_records``, ``cluster_records``, ``access_records``: the records' fields, a class each.
- ``metadata_record``: the frame around a record, and which class has which type.
- ``cluster``: what a log of these records comes to, and what kwire makes of it.

All of it is pure.
"""

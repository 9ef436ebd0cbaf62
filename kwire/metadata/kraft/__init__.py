"""Reads the metadata of an Apache Kafka cluster, which KRaft controllers keep as records.

- ``topic_records``, ``cluster_records``, ``access_records``: a class for each type of record.
- ``metadata_record``: the frame around a record, and the class for each record type.
- ``cluster``: replays the records, and gives the changes that make kwire's image out of them.

All modules are pure.
"""

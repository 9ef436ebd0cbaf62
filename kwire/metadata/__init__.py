"""The cluster's metadata: its image, its changes, the controller's decisions, and its store.

- ``image``: the content of the cluster at one revision.
- ``changes``: the changes that turn an image into the next one.
- ``controller``, ``config_control``, ``config_checks`` and ``features`` decide on changes.
- ``placement`` chooses brokers for replicas; ``registration``, ``partition_change`` and
  ``liveness`` decide the changes when brokers come and go; ``difference`` compares two images.
- ``store``: the interface of a metadata store. ``embedded`` implements it with SQLite, for one
  process that is its own controller; ``etcd`` for a cluster; ``supervised`` for the workers of one
  machine.
- ``kraft`` reads the metadata of Apache Kafka.

Every module but the stores and their ``session_table`` is pure: no clock, no files, no event loop.
"""

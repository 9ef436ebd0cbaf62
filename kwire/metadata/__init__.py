"""The cluster's metadata: its image, its changes, the controller's decisions, and its store.

- ``image``: what exists in the cluster at one revision.
- ``changes``: the changes that turn an image into the next one.
- ``controller``, ``config_control``, ``config_checks`` and ``features`` decide on changes.
- ``store``: the interface of a metadata store. ``embedded`` implements it with SQLite, for one
  process that is its own controller.
- ``kraft`` reads the metadata of Apache Kafka.

Every module but ``embedded`` is pure: no clock, no files, no event loop.
"""

"""Schema registries over HTTP, as Confluent's, Apicurio's, Karapace's and Redpanda's answer.

- ``client``: asks for subjects, versions and schemas, and registers schemas.
- ``cache``: schemas by id, kept in a process; it remembers missing ids for a while.
- ``subjects``: the newest schema of a subject, asked for again after some seconds.
"""

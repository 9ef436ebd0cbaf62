"""Values by the schemas of a registry, for whoever shows or decodes them.

- ``registry``: asks Confluent's, Apicurio's, Karapace's or Redpanda's registry over HTTP.
- ``cache``: schemas by id, kept in a process; it remembers missing ids for a while.
- ``wire_format``: the header of a value whose schema is in a registry.
- ``avro_names``, ``protobuf_compiler``: what the texts of schemas define.
- ``readable``: any value as JSON for people to read, within limits (``avro_readable``,
  ``protobuf_readable``). The page shows records with it. Pipelines decode to rows instead
  (``kwire.spark.decode``), which have types and no limits of size.
- ``undecodable``: why a value or a schema can't be used.
"""

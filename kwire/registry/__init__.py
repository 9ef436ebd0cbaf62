"""A schema registry in the broker: Confluent's REST API over the topic ``_schemas``."""

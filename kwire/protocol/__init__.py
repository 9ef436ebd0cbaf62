"""Kafka's wire protocol: bytes ↔ typed messages, without sockets, clocks or files.

``types`` defines the base classes and field types of messages. ``codec`` turns messages into bytes
and back. ``frame`` reads and writes the headers of requests and responses. ``messages`` has one
module per API.
"""

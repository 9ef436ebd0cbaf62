"""Kafka's wire protocol: bytes ↔ typed messages, without sockets, clocks or files.

``types`` says what a message class is, ``codec`` turns messages into bytes and back, ``frame``
knows the headers around them, and ``messages`` holds one module per API.
"""

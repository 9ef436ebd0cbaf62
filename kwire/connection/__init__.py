"""Connections: bytes from clients become requests, and responses become bytes to clients.

``poller`` watches all quiet connections, and ``connection`` serves one connection. ``inbox`` cuts
the received bytes into frames. ``outbox`` sends responses.
"""

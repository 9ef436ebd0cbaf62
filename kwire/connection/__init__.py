"""Connections: what clients send becomes requests, and responses become what they are sent.

``poller`` watches all that are quiet, ``connection`` serves one, ``inbox`` cuts what came into
frames, ``outbox`` sends responses.
"""

"""Coordinators of groups and transactions: state machines without clock, files or event loop.

An operation takes a request and the time, and returns ``Effects``: records for the coordinator's
topic, and replies to send once these records are written. ``replay`` applies a record to the state.
"""

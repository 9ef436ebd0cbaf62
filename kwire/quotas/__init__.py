"""Client quotas: how fast a client may use the broker, and how fast it uses it.

Pure: no clock, no event loop.
"""

"""Client quotas: how fast a client may use the broker, and how fast it does. Pure: no clock, no
event loop.
"""

"""Faults for unmodified clients: a broker for tests answers some requests wrongly, late or never.

``planning`` has what a test calls, ``acting`` carries a fault out, ``mirror`` splits requests and
builds responses with errors. ``elsewhere`` has the faults of a broker in another process. A broker
without faults has none of this code: a ``Server`` is given ``Faults.open_frame`` in place of
``kwire.dispatch.routing.open_frame``.
"""

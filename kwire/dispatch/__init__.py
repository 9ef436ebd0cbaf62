"""From a frame to its answer: route, decoding, rights, quotas, handler, encoding.

A connection (``kwire.connection``) brings frames and sends answers, and knows no API. A handler
(``kwire.handlers``) knows one API, and neither bytes nor connections.
"""

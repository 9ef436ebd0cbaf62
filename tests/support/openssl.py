"""Calls of OpenSSL that Python's ``ssl`` doesn't offer, for clients that are hostile.

A client of Python can't ask for new keys (TLS 1.3) or for another handshake (TLS 1.2), and both
are attacks that a broker has to stand.
"""

import ctypes
import re
import ssl
from pathlib import Path

# Private attributes: Python has no public way to OpenSSL's own object.

_POINTER_AT = 24
"""Where CPython keeps OpenSSL's connection in its own object."""
_WITH_AN_ANSWER = 1
"""SSL_KEY_UPDATE_REQUESTED: the other side has to make new keys too."""


class Missing(Exception):
    """This Python has OpenSSL built in, so its functions can't be called by name."""


# Private attributes: Python's ssl shows the session of OpenSSL to nobody.
class Hostile:
    """The client's side of a connection, which sends what an honest client doesn't; Missing."""

    def __init__(self, tls: ssl.SSLObject | ssl.SSLSocket) -> None:
        found = re.search(r"/\S*libssl\S*", Path("/proc/self/maps").read_text())
        if found is None:
            raise Missing("this Python has OpenSSL built in")
        self._library = ctypes.CDLL(found[0])
        self._tls = tls
        self._pointer = ctypes.c_void_p.from_address(id(tls._sslobj) + _POINTER_AT)  # type: ignore[union-attr]

    def ask_for_new_keys(self) -> None:
        """Send a KeyUpdate that wants an answer (RFC 8446, 4.6.3)."""
        assert self._library.SSL_key_update(self._pointer, _WITH_AN_ANSWER) == 1
        self._library.SSL_do_handshake(self._pointer)

    def ask_for_another_handshake(self) -> None:
        """Begin to renegotiate (RFC 5246, 7.4.1.1)."""
        assert self._library.SSL_renegotiate(self._pointer) == 1
        self._library.SSL_do_handshake(self._pointer)

"""SaslHandshake (API key 17): chooses a SASL mechanism.

Versions 0 to 1, never flexible. Changes by version:

- 1: the SASL exchange continues in SaslAuthenticate requests (KIP-152).
"""

from kwire.protocol.types import (
    Request,
    Response,
    array,
    int16,
    string,
)


class SaslHandshakeRequest(Request, key=17, versions=(0, 1), flexible=None):
    """Chooses a SASL mechanism."""

    mechanism: str = string()


class SaslHandshakeResponse(Response, key=17, versions=(0, 1), flexible=None):
    """The answer to ``SaslHandshakeRequest``."""

    error_code: int = int16()
    mechanisms: list[str] = array(string)

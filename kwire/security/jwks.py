"""The public keys that verify OAuth tokens: a JWKS document, from a file or fetched by HTTPS.

Rules:

- A thread reads the keys when the broker starts, and again every
  ``sasl.oauthbearer.jwks.endpoint.refresh.ms``. The old keys stay in use until the new ones are
  complete, also if reading fails. The age of the keys goes by the steady clock, so after a suspend
  the first login starts a reading if the keys are too old.
- A token with an unknown key id starts a new reading, at most one per ``AGAIN_S`` seconds, because
  the issuer may have a new key. This login still fails; the client's next attempt finds the key.
- Keys that come over plain HTTP would be anybody's, so such a URL is refused, and so is an answer
  that leads to one. The server's certificate must be one of a CA that the system knows, or of the
  file that the environment variable SSL_CERT_FILE names.
- A document may have at most ``MOST_BYTES``, and an endpoint may be silent for ``TIMEOUT_S``.

Source: RefreshingHttpsJwks of Kafka. There, ConfigurationUtils.validateUrl lets http through.
"""

import json
import logging
import threading
from collections.abc import Callable
from http.client import HTTPException
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from jwt import PyJWKSet, PyJWTError

from kwire.clock import steady_clock_ms

log = logging.getLogger(__name__)

MOST_BYTES = 1 << 20
TIMEOUT_S = 10.0
AGAIN_S = 10.0


class KeysUnreadable(ValueError):
    """The keys can't be read. The text gives the reason in one line."""


class _StaysSecured(HTTPRedirectHandler):
    """Follows an answer that leads elsewhere over HTTPS only."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        """The request for the other place; KeysUnreadable."""
        if urlsplit(newurl).scheme != "https":
            raise KeysUnreadable("its server leads to a URL that doesn't begin with https:")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def read_keys(url: str) -> dict[str | None, object]:
    """Read a JWKS document and return its public keys by key id; KeysUnreadable."""
    parts = urlsplit(url)
    try:
        if parts.scheme == "file":
            with open(unquote(parts.path), "rb") as file:
                text = file.read(MOST_BYTES)
        elif parts.scheme == "https":
            request = Request(url, headers={"Accept": "application/json"})  # noqa: S310
            with build_opener(_StaysSecured).open(request, timeout=TIMEOUT_S) as response:
                text = response.read(MOST_BYTES)
        else:
            raise KeysUnreadable("it must be a URL that begins with https: or file:")
        found = PyJWKSet.from_dict(json.loads(text))
    except KeysUnreadable:
        raise
    except (
        OSError,
        HTTPException,
        ValueError,
        PyJWTError,
        AttributeError,
        RecursionError,
    ) as error:
        raise KeysUnreadable(f"no keys can be read from it ({error})") from None
    keys: dict[str | None, object] = {key.key_id: key for key in found.keys}
    if len(found.keys) == 1:
        keys[None] = found.keys[0]  # a token may name no key id
    return keys


class Jwks:
    """The keys of one listener. Raises KeysUnreadable if no key can be read at the start."""

    def __init__(
        self,
        url: str,
        refresh_s: float,
        read: Callable[[str], dict[str | None, object]] = read_keys,
        steady_ms: Callable[[], int] = steady_clock_ms,
    ) -> None:
        self.url = url
        self._refresh_s = refresh_s
        self._read = read
        self._steady_ms = steady_ms
        self._keys = read(url)
        self._read_ms = steady_ms()
        self._reading: threading.Thread | None = None

    @property
    def key_ids(self) -> set[str | None]:
        """The ids of the keys that were read last."""
        return set(self._keys)

    def key(self, key_id: str | None) -> object | None:
        """The key with this id, or None."""
        key = self._keys.get(key_id)
        age_s = (self._steady_ms() - self._read_ms) / 1000
        if age_s >= (self._refresh_s if key is not None else min(AGAIN_S, self._refresh_s)):
            self._read_again()
        return key

    def _read_again(self) -> None:
        if self._reading is not None and self._reading.is_alive():
            return
        self._read_ms = self._steady_ms()
        self._reading = threading.Thread(target=self._replace, name="jwks", daemon=True)
        self._reading.start()

    def wait_read(self) -> None:
        """Wait for the end of a reading that is in progress."""
        if self._reading is not None:
            self._reading.join()

    def _replace(self) -> None:
        try:
            self._keys = self._read(self.url)
        except KeysUnreadable as error:
            log.warning("the keys of %s stay as they are: %s", self.url, error)

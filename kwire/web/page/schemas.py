"""Keys and values by the schemas of a registry, for the page.

Rules:

- The registry is asked in a thread, for at most ``MAX_ASKED`` schemas. A page waits for it for
  ``WAIT_S``. Then it shows the bytes and says why, and its script asks for it again: the thread
  goes on. While a thread is late, no page waits, and none asks.
- The values of one page are decoded for at most ``DECODE_S`` of processor time, and to at most
  ``MAX_PAGE_CHARS``; then the rest stands as bytes. A search decodes for as long as it lasts.
"""

import json
import time
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import trio

from kwire.budget.thread_pool import ThreadPool
from kwire.config.broker import BrokerConfig
from kwire.schemas.readable import Decoded, ReadableValues, is_framed
from kwire.schemas.registry import RegistrySettings, load_client
from kwire.schemas.undecodable import NotYet, Undecodable
from kwire.schemas.wire_format import HEADER_BYTES

WAIT_S = 0.3
ASK_S = 2.0
MAX_ASKED = 50
DECODE_S = 1.0
MAX_PAGE_CHARS = 8 * 1024 * 1024


class Schemas:
    """What the page knows of the registry's schemas."""

    def __init__(self, settings: RegistrySettings) -> None:
        self.address = settings.address
        self._values = ReadableValues(settings)
        self._threads = ThreadPool(1)
        self._is_loaded = False

    async def learn(self, contents: Iterable[bytes]) -> "PageOfValues":
        """Ask for the schemas of these contents, unless they are known."""
        numbers = self._values.unknown(contents)[:MAX_ASKED]
        if numbers and not self._threads.running:
            if not self._is_loaded:  # the registry has no part in this wait
                await self._threads.run(load_client)
                self._is_loaded = True
            with trio.move_on_after(WAIT_S):
                until_s = time.monotonic() + ASK_S
                await self._threads.run(self._values.learn, numbers, until_s, abandon=True)
        return PageOfValues(self._values)

    def searched(self) -> "SearchedValues":
        """Decodes the values of a search."""
        return SearchedValues(self, self._values)


class SearchedValues:
    """Decodes values for a search; ``lacking`` has the headers of those whose schema is missing."""

    def __init__(self, schemas: Schemas, values: ReadableValues) -> None:
        self.lacking: dict[bytes, None] = {}
        self._schemas = schemas
        self._values = values

    async def knows_more(self) -> bool:
        """Ask for the schemas that are missing; if there is one of them now, none is missing."""
        before = len(self._values.unknown(self.lacking))
        await self._schemas.learn(self.lacking)
        if len(self._values.unknown(self.lacking)) == before:
            return False
        self.lacking.clear()
        return True

    def document(self, content: bytes) -> Any:
        """A value with its header as what JSON has; None if it can't be read by its schema."""
        if not is_framed(content):
            return None
        try:
            return self._values.document(bytes(content))
        except NotYet:
            if len(self.lacking) < MAX_ASKED:
                self.lacking[bytes(content[:HEADER_BYTES])] = None
        except Undecodable:
            pass
        return None

    def text(self, content: bytes) -> bytes:
        """The same as text in one line; empty if it can't be read by its schema."""
        document = self.document(content)
        if document is None:
            return b""
        try:
            return json.dumps(document, ensure_ascii=False).encode(errors="replace")
        except (TypeError, ValueError, RecursionError):
            return b""


class PageOfValues:
    """Decodes the values of one page, while its time lasts; ``problems`` has what went wrong."""

    def __init__(self, values: ReadableValues) -> None:
        self.problems: dict[str, None] = {}
        self._values = values
        self._left_s = DECODE_S
        self._left_chars = MAX_PAGE_CHARS

    def decoded(self, content: bytes) -> Decoded | str:
        """A whole value with its header as text, or why it isn't decoded."""
        begin_s = time.thread_time()
        try:
            if self._left_s < 0:
                raise Undecodable("the time of the page is over")
            if self._left_chars < 0:
                raise Undecodable("the room of the page is over")
            found = self._values.decoded(content)
            self._left_chars -= len(found.text)
            return found
        except Undecodable as error:
            if isinstance(error, NotYet):
                self.problems[error.text] = None
            return error.text
        finally:
            self._left_s -= time.thread_time() - begin_s  # other pages have the thread meanwhile


def schemas_of(config: BrokerConfig, own_registry: str = "") -> Schemas | None:
    """The schemas of the registry that the settings name; None without one.

    Without the setting it is ``own_registry``, the URL of the broker's own one, if there is one and
    the packages to ask it are installed.
    """
    has_client = own_registry and find_spec("confluent_kafka") is not None
    url = config["kwire.http.schema.registry.url"] or (own_registry if has_client else "")
    if not url:
        return None
    login = str(config["kwire.http.schema.registry.basic.auth.user.info"] or "")
    user, _, password = login.partition(":")
    authorities = config["kwire.http.schema.registry.ssl.ca.location"]
    client = (("ssl.ca.location", str(authorities)),) if authorities else ()
    return Schemas(
        RegistrySettings(
            str(url),
            user,
            password,
            ASK_S,
            attempts=1,
            client=client,
            login_names="kwire.http.schema.registry.basic.auth.user.info",
            client_name="kwire.http.schema.registry.ssl.ca.location",
        )
    )

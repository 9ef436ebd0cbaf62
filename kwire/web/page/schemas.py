"""Keys and values by the schemas of a registry, for the page.

Rules:

- The registry is asked in a thread, for at most ``MAX_ASKED`` schemas and ``WAIT_S`` for one page.
  A registry that doesn't answer costs no more than that; the page then says so beside the bytes.
- One thread asks at a time. A thread that hangs is given up, and the next one waits for it.
- The values of one page are decoded for at most ``DECODE_S`` of processor time, and to at most
  ``MAX_PAGE_CHARS``; then the rest stands as bytes.
"""

import time
from collections.abc import Iterable
from importlib.util import find_spec

import trio

from kwire.budget.thread_pool import ThreadPool
from kwire.config.broker import BrokerConfig
from kwire.schemas.readable import Decoded, ReadableValues
from kwire.schemas.registry import RegistrySettings
from kwire.schemas.undecodable import NotYet, Undecodable

WAIT_S = 2.5
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

    async def learn(self, contents: Iterable[bytes]) -> "PageOfValues":
        """Ask for the schemas of these contents, unless they are known."""
        numbers = self._values.unknown(contents)[:MAX_ASKED]
        if numbers:
            with trio.move_on_after(WAIT_S):
                until_s = time.monotonic() + ASK_S
                await self._threads.run(self._values.learn, numbers, until_s, abandon=True)
        return PageOfValues(self._values)


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

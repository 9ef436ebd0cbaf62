"""Keys and values by the schemas of a registry, for the page.

Rules:

- The registry is asked in a thread, for at most ``MAX_ASKED`` schemas and ``WAIT_S`` for one page.
  A registry that doesn't answer costs no more than that; the page then says so beside the bytes.
- One thread asks at a time. A thread that hangs is given up, and the next one waits for it.
- The values of one page are decoded for at most ``DECODE_S`` of processor time; then the rest
  stands as bytes.
"""

import time
from collections.abc import Iterable

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
        self._end_s = time.thread_time() + DECODE_S

    def decoded(self, content: bytes) -> Decoded | str:
        """A whole value with its header as text, or why it isn't decoded."""
        try:
            if time.thread_time() > self._end_s:
                raise Undecodable("the time of the page is over")
            return self._values.decoded(content)
        except Undecodable as error:
            if isinstance(error, NotYet):
                self.problems[error.text] = None
            return error.text


def schemas_of(config: BrokerConfig) -> Schemas | None:
    """The schemas of the registry that the settings name; None without one."""
    url = config["kwire.http.schema.registry.url"]
    if not url:
        return None
    login = str(config["kwire.http.schema.registry.basic.auth.user.info"] or "")
    user, _, password = login.partition(":")
    authorities = config["kwire.http.schema.registry.ssl.ca.location"]
    client = (("ssl.ca.location", str(authorities)),) if authorities else ()
    return Schemas(RegistrySettings(str(url), user, password, ASK_S, attempts=1, client=client))

"""The watch of kwire's keys in etcd, and the commits that it has brought.

Rules:

- The watch is a hint. It may end, stay silent or miss something. So code that needs the truth reads
  the keys. The watch says when to read, and often brings the next commit along.
- After a (re)connect, any key may have changed. The same holds when an answer shows a revision of
  etcd that the watch hasn't reached. Then ``looks`` grows, and all followers read the keys again.
- A watch that missed a commit is begun anew, at the next endpoint.
"""

from collections.abc import Sequence
from random import Random

import trio

from kwire.metadata.etcd.gateway import EtcdError, Gateway, Unreachable
from kwire.metadata.etcd.keys import Keys, end_of
from kwire.metadata.etcd.transactions import Json, key_value, revision_of, watch_between

PAUSE_S = 0.2
"""The mean pause before the watch is begun again after a failure."""

KEPT_BYTES = 1 << 20
KEPT_COMMITS = 100
"""The most commits from the watch that are kept for the followers of the log."""


class Following:
    """Newer commits and changed sessions, as far as they are known; ``run`` has to run."""

    def __init__(self, gateway: Gateway, keys: Keys, random: Random) -> None:
        self.looks = 0
        self.newest = 0
        self.session_changes = 0
        self._gateway = gateway
        self._keys = keys
        self._random = random
        self._values: dict[int, bytes] = {}
        self._bytes = 0
        self._changed = trio.Event()
        self._seen = 0
        self._brought = self._suspected = 0
        self._is_fresh = True
        self._scope: trio.CancelScope | None = None

    @property
    def changed(self) -> trio.Event:
        """The event of the next change: get it before you read the keys."""
        return self._changed

    def value(self, revision: int) -> bytes | None:
        """A commit's value, if the watch has brought it or this process has written it."""
        return self._values.get(revision)

    def learn(self, revision: int, value: bytes) -> None:
        """Note that a commit exists."""
        self.newest = max(self.newest, revision)
        if revision in self._values:
            return
        self._values[revision] = value
        self._bytes += len(value)
        while self._bytes > KEPT_BYTES or len(self._values) > KEPT_COMMITS:
            self._bytes -= len(self._values.pop(next(iter(self._values))))
        assert self._values or not self._bytes, self._bytes
        self._wake_followers()

    def record_revision(self, revision: int) -> None:
        """Note that a commit was found in the keys."""
        self.newest = max(self.newest, revision)

    def hear(self, store_revision: int) -> None:
        """Note that an answer to a keepalive shows this revision of etcd's whole store.

        A commit that the last call found without the watch, and that the watch hasn't brought
        since, shows that the watch is dead.
        """
        if self._is_fresh:
            # The watch doesn't bring commits from before its begin.
            self._is_fresh, self._brought = False, max(self._brought, self.newest)
        elif self._scope is not None and self._suspected > self._brought:
            self._scope.cancel()
        self._suspected = self.newest
        if store_revision > self._seen:
            self._seen = store_revision
            self.read_again()

    def read_again(self) -> None:
        """Make all followers read the keys again."""
        self.looks += 1
        self._wake_followers()

    async def run(self) -> None:
        """Watch forever."""
        names = (self._keys.log, self._keys.live)
        ranges = [(name, end_of(name)) for name in names]
        ranges.append((self._keys.controller, f"{self._keys.controller}\0"))
        requests = [watch_between(first, end) for first, end in ranges]
        while True:
            try:
                with trio.CancelScope() as self._scope:
                    async with self._gateway.stream("watch", requests) as messages:
                        waiting = len(requests)
                        async for message in messages:
                            waiting -= bool(message.get("created"))
                            self._parse_message(message, is_complete=not waiting)
            except (Unreachable, EtcdError):
                pass
            self._scope = None
            await trio.sleep(self._random.uniform(0.5, 1.5) * PAUSE_S)

    def _parse_message(self, message: Json, *, is_complete: bool) -> None:
        self._seen = max(self._seen, revision_of(message))
        if message.get("canceled"):
            raise EtcdError(0, f"the watch was cancelled: {message.get('cancel_reason')}")
        if message.get("created") and is_complete:
            self._is_fresh = True
            self.read_again()
        self._take_events(message.get("events", ()))

    def _take_events(self, events: Sequence[Json]) -> None:
        for event in events:
            is_put = event.get("type", "PUT") == "PUT"
            found = key_value(event["kv"])
            if not found.key.startswith(self._keys.log):
                self.session_changes += 1
            elif is_put:
                revision = self._keys.revision(found.key)
                self._brought = max(self._brought, revision)
                self.learn(revision, found.value)
        self._wake_followers()

    def _wake_followers(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

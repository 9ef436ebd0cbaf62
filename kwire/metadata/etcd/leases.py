"""Sessions in etcd: a key ``live/{node}`` under a lease, and ``controller`` under the same lease.

Rules:

- etcd may end a lease early, or may keep a lease alive whose keys are gone (etcd's issues 15247,
  14758). So a session is over when its key doesn't exist with the revision of its creation,
  whatever the lease does. The key is checked when the watch reports a change, and after each
  reconnect.
- ``kept_ms`` is the time *before* the keepalive was sent.
"""

import json
from collections.abc import Callable
from contextlib import suppress

import trio

from kwire.metadata.etcd import transactions as tx
from kwire.metadata.etcd.following import Following
from kwire.metadata.etcd.gateway import EtcdError, Gateway, Unreachable
from kwire.metadata.etcd.keys import Keys, end_of
from kwire.metadata.session_table import CONTROLLER, check_replaceable, live_key
from kwire.metadata.store import Guard, Member, Session, Sessions

ATTEMPTS = 20
"""How often to try to begin a session while others change its key."""

_NO_SUCH_LEASE = 5


class EtcdSession:
    """A session in etcd; the store keeps it alive."""

    def __init__(
        self, leases: "Leases", guard: Guard, lease: str, ttl_ms: int, kept_ms: int
    ) -> None:
        self.guard = guard
        self.ttl_ms = ttl_ms
        self.lease = lease
        self.kept_ms: float = kept_ms
        self.is_over = False
        self._leases = leases

    async def close(self) -> None:
        """End the session at once: delete its key, and the controller's key if it has that."""
        self.is_over = True
        await self._leases.revoke(self.lease)


class Leases:
    """The sessions below a prefix, and this process's own; ``keep`` has to run."""

    def __init__(
        self,
        gateway: Gateway,
        keys: Keys,
        following: Following,
        keep_every_ms: int,
        steady_ms: Callable[[], int],
    ) -> None:
        self._gateway = gateway
        self._keys = keys
        self._following = following
        self._keep_every_s = keep_every_ms / 1000
        self._steady_ms = steady_ms
        self._own: EtcdSession | None = None
        self._begun = trio.Event()

    async def start_session(self, member: Member, ttl_ms: int) -> Session:
        """Begin this process's session; NodeIdTaken.

        A lease may end before it has the key, while etcd doesn't answer. Then there is a new one.
        """
        guard = None
        while guard is None:
            kept_ms = self._steady_ms()
            body = {"TTL": str(-(-ttl_ms // 1000))}
            granted = (await self._gateway.call("lease/grant", body)).body
            lease = str(granted["ID"])
            try:
                guard = await self._put_session(member, lease)
            except BaseException as error:
                with trio.move_on_after(1, shield=True):
                    await self.revoke(lease)
                if not isinstance(error, EtcdError) or error.code != _NO_SUCH_LEASE:
                    raise
        self._own = EtcdSession(self, guard, lease, int(granted["TTL"]) * 1000, kept_ms)
        self._begun.set()
        return self._own

    async def _put_session(self, member: Member, lease: str) -> Guard:
        """Write the session's key, after the end of an old session that may be replaced."""
        key = self._keys.session(member.node_id)
        value = json.dumps([member.incarnation, member.locks]).encode()
        operations = [tx.put(key, value, lease), tx.get(key)]
        request = tx.transaction([tx.is_absent(key)], operations, [tx.get(key)])
        for _ in range(ATTEMPTS):
            answer = (await self._gateway.call("kv/txn", request)).body
            found = tx.found_keys(answer, 1 if tx.succeeded(answer) else 0)[0]
            guard = Guard(live_key(member.node_id), found.created)
            if found.lease == lease:
                return guard
            check_replaceable(self._member(found), member)
            await self.end(guard)
        raise RuntimeError("the key of this broker's session changes again and again")

    async def revoke(self, lease: str) -> None:
        """End a lease and delete its keys; if etcd doesn't answer, the lease expires by itself."""
        with suppress(EtcdError, Unreachable):
            await self._gateway.call("lease/revoke", {"ID": lease})

    async def hold_controller(self, session: Session) -> Guard | None:
        """Take the controller's key if nobody has it, under the lease of the own session."""
        assert isinstance(session, EtcdSession)
        key = self._keys.controller
        compare = [tx.is_absent(key), tx.still(self._keys, session.guard)]
        operations = [tx.put(key, _holder(session.guard), session.lease), tx.get(key)]
        request = tx.transaction(compare, operations, [tx.get(key)])
        answer = (await self._gateway.call("kv/txn", request)).body
        found = tx.found_keys(answer, 1 if tx.succeeded(answer) else 0)
        if not found or found[0].value != _holder(session.guard):
            return None
        return Guard(CONTROLLER, found[0].created)

    async def end(self, guard: Guard) -> None:
        """Delete the key of a session or of the controller, unless it was made again since."""
        if guard.key != CONTROLLER:
            held = [tx.has_value(self._keys.controller, _holder(guard))]
            request = tx.transaction(held, [tx.delete(self._keys.controller)])
            await self._gateway.call("kv/txn", request)
        operations = [tx.delete(self._keys.full(guard.key))]
        request = tx.transaction([tx.still(self._keys, guard)], operations)
        await self._gateway.call("kv/txn", request)

    async def read(self) -> Sessions:
        """The sessions as they are now."""
        between = tx.get_between(self._keys.live, end_of(self._keys.live))
        request = tx.transaction((), [between, tx.get(self._keys.controller)])
        answer = (await self._gateway.call("kv/txn", request)).body
        members = {}
        for found in tx.found_keys(answer):
            member = self._member(found)
            members[member.node_id] = member, Guard(live_key(member.node_id), found.created)
        controller = None
        for found in tx.found_keys(answer, 1):
            node_id, _ = json.loads(found.value)
            controller = node_id, Guard(CONTROLLER, found.created)
        return Sessions(members, controller)

    def _member(self, found: tx.KeyValue) -> Member:
        incarnation, locks = json.loads(found.value)
        return Member(self._keys.node_id(found.key), incarnation, tuple(locks))

    async def keep_session(self) -> None:
        """Keep the own session alive, forever."""
        while True:
            await self._begun.wait()
            session = self._own
            if session is None or session.is_over:
                self._begun = trio.Event()
                continue
            with trio.move_on_after(self._keep_every_s):
                await self._look_after(session)
                await trio.sleep_forever()

    async def _look_after(self, session: EtcdSession) -> None:
        """Send a keepalive, then look at the session's key whenever sessions change."""
        sent_ms = self._steady_ms()
        try:
            answer = await self._gateway.call(
                "lease/keepalive", {"ID": session.lease}, self._keep_every_s
            )
            result = answer.body.get("result", {})
            if int(result.get("TTL", 0)):
                session.kept_ms = sent_ms
            else:
                session.is_over = True
            self._following.hear(tx.revision_of(result))
            seen = -1, -1
            while not session.is_over:
                changed = self._following.changed
                now = self._following.looks, self._following.session_changes
                if now != seen:
                    seen = now
                    await self._check_session(session)
                await changed.wait()
        except EtcdError as error:
            session.is_over = session.is_over or error.code == _NO_SUCH_LEASE
        except Unreachable:
            pass

    async def _check_session(self, session: EtcdSession) -> None:
        """End the session if its key is gone or was made by another process."""
        request = tx.transaction([tx.still(self._keys, session.guard)], ())
        if not tx.succeeded((await self._gateway.call("kv/txn", request)).body):
            session.is_over = True


def _holder(session: Guard) -> bytes:
    """The value of the controller's key: the node id, and the creation of the session's key."""
    return json.dumps([int(session.key.rpartition("/")[2]), session.created]).encode()

"""The sessions of a store that itself decides when they end: embedded and supervised.

Rules:

- A session ends only by a call of ``close`` or ``end``. There is no lease, because the store knows
  at once when the other side is gone.
- Each session and each hold of the controller gets a unique number.
"""

from collections.abc import AsyncGenerator

import trio

from kwire.metadata.store import Guard, GuardFailed, Member, NodeIdTaken, Sessions

CONTROLLER = "controller"


def live_key(node_id: int) -> str:
    """The key of a broker's session."""
    return f"live/{node_id}"


def check_replaceable(old: Member, new: Member) -> None:
    """Raise NodeIdTaken unless the session ``new`` may replace ``old`` at once.

    A process that holds the lock of the old process proves that the old one is dead. On another
    machine, or in a copy of the directory, the old process may still run: its session has to end
    first.
    """
    if old.incarnation != new.incarnation and not {*old.locks} & {*new.locks}:
        raise NodeIdTaken(
            f"node.id {new.node_id} is in use by another broker, on another machine or with other "
            "data directories; stop that broker, or give each broker its own node.id"
        )


class SessionTable:
    """Sessions in memory."""

    def __init__(self) -> None:
        self.sessions = Sessions({}, None)
        self._created = 0
        self._changed = trio.Event()

    def start_session(self, member: Member) -> Guard:
        """Begin a session; NodeIdTaken."""
        members = dict(self.sessions.members)
        if member.node_id in members:
            old, guard = members[member.node_id]
            check_replaceable(old, member)
            self.end(guard)
            members = dict(self.sessions.members)
        assert member.node_id not in members, member  # one process of each node id
        guard = self._new(live_key(member.node_id))
        members[member.node_id] = member, guard
        self._set_sessions(self.sessions._replace(members=members))
        return guard

    def hold_controller(self, session: Guard) -> Guard | None:
        """The controller's guard for this session; None if another session is the controller."""
        self.check(session)
        node_id = next(n for n, (_, guard) in self.sessions.members.items() if guard == session)
        controller = self.sessions.controller
        if controller is None:
            controller = node_id, self._new(CONTROLLER)
            self._set_sessions(self.sessions._replace(controller=controller))
        return controller[1] if controller[0] == node_id else None

    def end(self, guard: Guard) -> None:
        """End a session with its hold of the controller, or only a hold; harmless if it is over."""
        members, controller = self.sessions
        kept = {node: entry for node, entry in members.items() if entry[1] != guard}
        if controller is not None and (controller[1] == guard or controller[0] not in kept):
            controller = None
        if (kept, controller) != (members, self.sessions.controller):
            self._set_sessions(Sessions(kept, controller))
        assert not self.exists(guard), guard  # ``check`` refuses its commits from here on

    def exists(self, guard: Guard) -> bool:
        """Whether a session or hold isn't over."""
        members, controller = self.sessions
        guards = [entry[1] for entry in members.values()]
        return guard in guards or (controller is not None and controller[1] == guard)

    def check(self, guard: Guard | None) -> None:
        """Raise GuardFailed if the guard is over; None stands for no guard."""
        if guard is not None and not self.exists(guard):
            raise GuardFailed

    async def watch(self) -> AsyncGenerator[Sessions, None]:
        """The sessions now, and again after each change; changes may be merged."""
        while True:
            changed = self._changed
            yield self.sessions
            await changed.wait()

    def _new(self, key: str) -> Guard:
        self._created += 1
        return Guard(key, self._created)

    def _set_sessions(self, sessions: Sessions) -> None:
        holder = sessions.controller
        assert holder is None or holder[0] in sessions.members, holder
        self.sessions = sessions
        self._changed.set()
        self._changed = trio.Event()


class LastingSession:
    """A session of this process in its own store: it lasts until it is closed."""

    kept_ms = float("inf")

    def __init__(self, table: SessionTable, member: Member, ttl_ms: int) -> None:
        self.ttl_ms = ttl_ms
        self.guard = table.start_session(member)
        self._table = table

    @property
    def is_over(self) -> bool:
        """Whether the session was closed or ended."""
        return not self._table.exists(self.guard)

    async def close(self) -> None:
        """End the session."""
        self._table.end(self.guard)

"""The messages of logins are paid for by who sends them, though nobody knows yet who that is."""

from types import SimpleNamespace

import pytest

from kwire.budget.work import FIRST_UNITS, Turns, Work
from kwire.handlers.lib.waiting import Unfinished
from kwire.handlers.sasl_authenticate import handle
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.security.oauth import MOST_TOKEN_CHARACTERS


class _Login:
    """Takes any message, and remembers how many."""

    is_begun = True

    def __init__(self):
        self.steps = 0

    def step(self, message, now_ms, now_s):
        self.steps += 1
        return b"", 0


@pytest.mark.parametrize(
    ("size", "left", "steps"), [(500, 900, 1), (MOST_TOKEN_CHARACTERS, 900, 0), (500, 20, 0)]
)
async def test_a_long_message_waits_for_its_turn(size, left, steps):
    """The longest token takes a millisecond: in a pass that others have spent, it comes later."""
    turns, login = Turns(), _Login()
    turns.units_left = left
    work = Work(turns, lambda: False)
    work.begin_request(1)
    assert left < FIRST_UNITS
    clock = SimpleNamespace(now_ms=lambda: 0)
    context = SimpleNamespace(
        work=work, connection=SimpleNamespace(login=login), broker=SimpleNamespace(clock=clock)
    )
    answer = handle(SaslAuthenticateRequest(auth_bytes=bytes(size)), context)
    assert login.steps == steps
    assert (type(answer) is Unfinished) == (not steps)

"""The messages of logins take turns with what other clients want, however many there are."""

from types import SimpleNamespace

import pytest

from kwire.budget.work import FIRST_S, Turns, Work
from kwire.handlers.lib.waiting import Unfinished, begun_at_once
from kwire.handlers.sasl_authenticate import handle
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.support.clock import HandClock


class _Login:
    """Takes any message, and remembers how many."""

    is_begun = True

    def __init__(self):
        self.steps = 0

    def step(self, message, now_ms, now_s):
        self.steps += 1
        return b"", 0


@pytest.mark.parametrize(("taken_s", "steps"), [(0, 1), (FIRST_S, 0)])
async def test_a_message_waits_for_its_turn(taken_s, steps):
    """The longest token takes a millisecond: if the slice is over by then, it comes later."""
    time, login = HandClock(), _Login()
    work = Work(Turns(time), lambda: False)
    work.begin_request()
    time.pass_time(taken_s)
    clock = SimpleNamespace(now_ms=lambda: 0)
    context = SimpleNamespace(
        work=work, connection=SimpleNamespace(login=login), broker=SimpleNamespace(clock=clock)
    )
    answer = begun_at_once(handle)(SaslAuthenticateRequest(auth_bytes=bytes(500)), context)
    assert login.steps == steps
    assert (type(answer) is Unfinished) == (not steps)

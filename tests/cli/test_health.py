"""``kwire health`` says what is wrong, and what it could not look at."""

from functools import partial

import trio

from kwire.cli import main
from kwire.testing.in_process import running_server

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}


async def _health(running):
    bootstrap = f"127.0.0.1:{running.server.addresses[0][1]}"
    return await trio.to_thread.run_sync(partial(main, ["health", "-b", bootstrap]))


async def test_a_broker_that_serves_is_healthy(tmp_path, capsys):
    """It has no topic, and takes groups."""
    async with running_server(tmp_path) as running:
        assert await _health(running) == 0
    assert "broker 1 takes groups" in capsys.readouterr().out


async def test_who_may_not_ask_for_groups_is_told_which_right_is_missing(tmp_path, capsys):
    """That isn't an outage, but nothing is known either: the exit code is 1."""
    async with running_server(tmp_path, AUTHORIZER) as running:
        assert await _health(running) == 1
    said = capsys.readouterr().out
    assert "not checked: that takes the right DESCRIBE on the group kwire-health" in said
    assert "can't be served" not in said

"""``kwire users``, ``acls``, ``quotas`` and ``tokens``, by an administrator of a broker."""

import io
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.cli import main
from kwire.config.authorizer import STANDARD_AUTHORIZER
from tests.support.in_process import RunningServer, running_server

ADMIN = "User:admin"
SETTINGS = {
    "listeners": "LOGIN://127.0.0.1:0",
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.login.plain.sasl.jaas.config": 'x.PlainLoginModule required user_admin="a";',
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": ADMIN,
    "delegation.token.secret.key": "secret",
}
LOGIN = """\
security.protocol=SASL_PLAINTEXT
sasl.mechanism={mechanism}
sasl.jaas.config=x.LoginModule required username="{user}" password="{password}"{more};
"""


class Shell:
    """Runs commands as the administrator, or as another user."""

    def __init__(self, server: RunningServer, directory: Path, capsys: Any) -> None:
        self._address = ["-b", f"{server.host}:{server.port}", "--timeout", "5"]
        self._directory = directory
        self._capsys = capsys
        self.login("admin", "a", "PLAIN")

    def login(self, user: str, password: str, mechanism: str, more: str = "") -> None:
        """All further commands are those of this user."""
        self._login = self._directory / f"{user}.properties"
        self._login.touch(mode=0o600)
        text = LOGIN.format(user=user, password=password, mechanism=mechanism, more=more)
        self._login.write_text(text, encoding="utf-8")

    async def __call__(self, *command: str, code: int = 0) -> str:
        """What a command prints; with the code 0 on stdout, else on stderr."""
        login = ["--command-config", str(self._login)]
        words = [*command, *self._address, *login]
        self._capsys.readouterr()
        assert await trio.to_thread.run_sync(partial(main, words)) == code, (
            self._capsys.readouterr()
        )
        said = self._capsys.readouterr()
        return str(said.err if code else said.out)

    async def json(self, *command: str) -> Any:
        """The document of a command."""
        return json.loads(await self(*command, "--json"))


@pytest.fixture
async def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Commands as an administrator of a broker that knows users and rights."""
    async with running_server(tmp_path / "data", SETTINGS) as server:
        yield Shell(server, tmp_path, capsys)


class Terminal(io.StringIO):
    """Standard input at a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """What the next command reads from standard input."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


async def test_a_user_from_the_first_to_the_last_day(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is added logs in with the password, and no longer after another one or none."""
    assert await shell.json("users", "list") == []
    type_in(monkeypatch, "hush\n")
    await shell("users", "add", "alice", "--dry-run")
    assert await shell.json("users", "list") == []
    type_in(monkeypatch, "hush\n")
    assert await shell("users", "add", "alice") == "added user alice (SCRAM-SHA-512)\n"
    told = {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 8192}
    assert await shell.json("users", "list", "alice") == [told]
    assert "user alice exists" in await shell("users", "add", "alice", code=1)
    shell.login("alice", "hush", "SCRAM-SHA-512")
    await shell("topics", "list")
    shell.login("admin", "a", "PLAIN")
    type_in(monkeypatch, "new\n")
    await shell("users", "password", "alice")
    shell.login("alice", "hush", "SCRAM-SHA-512")
    assert "cannot connect" in await shell("topics", "list", code=1)
    shell.login("alice", "new", "SCRAM-SHA-512")
    await shell("topics", "list")
    shell.login("admin", "a", "PLAIN")
    type_in(monkeypatch, "")
    assert "password is empty" in await shell("users", "password", "alice", code=1)
    for command in ("password", "remove"):
        said = await shell("users", command, "alic", code=1)
        assert said == "kwire: there is no user alic: did you mean alice?\n"
    dry = await shell("users", "remove", "alice", "--dry-run")
    assert dry == "would remove user alice (SCRAM-SHA-512)\n"
    assert await shell("users", "remove", "alice") == "removed user alice (SCRAM-SHA-512)\n"
    assert await shell.json("users", "list") == []


@pytest.mark.parametrize(
    ("typed", "said"), [(["a", "b"], "the two passwords differ"), (["", ""], "password is empty")]
)
async def test_a_password_is_typed_twice(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, typed: list[str], said: str
) -> None:
    """At a terminal; nothing of it is shown, and one that is mistyped is not set."""
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    answers = iter(typed)
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(answers))
    assert said in await shell("users", "add", "alice", code=1)
    answers = iter(["a", "a"])
    await shell("users", "add", "alice")
    shell.login("alice", "a", "SCRAM-SHA-512")
    await shell("topics", "list")


async def test_a_broker_without_an_authorizer_says_so_once(tmp_path: Path, capsys) -> None:
    """With what to do about it, before the protocol's name of the error."""
    async with running_server(tmp_path) as server:
        words = ["acls", "list", "-b", f"{server.host}:{server.port}"]
        assert await trio.to_thread.run_sync(partial(main, words)) == 1
    said = capsys.readouterr().err
    assert said.startswith("kwire: the brokers have no authorizer, so everybody may do everything")
    assert said.count("authorizer") == 1
    assert said.endswith(" (SECURITY_DISABLED)\n")


async def test_rights_are_added_listed_and_removed(shell: Shell) -> None:
    """Names with a star are prefixes; only what is named is removed."""
    command = ("acls", "add", "alice", "READ,Describe", "topic:orders", "group:billing-*")
    assert (await shell(*command, "--dry-run")).count(
        "would add the ACL that allows User:alice"
    ) == 4
    assert await shell.json("acls", "list") == []
    assert (await shell(*command)).count("added: allows User:alice") == 4
    await shell("acls", "add", "User:*", "WRITE", "topic:*", "--deny", "--host", "10.0.0.9")
    rows = await shell.json("acls", "list")
    assert {(row["principal"], row["operation"], row["resource"]) for row in rows} == {
        ("User:alice", "READ", "topic:orders"),
        ("User:alice", "DESCRIBE", "topic:orders"),
        ("User:alice", "READ", "group:billing-*"),
        ("User:alice", "DESCRIBE", "group:billing-*"),
        ("User:*", "WRITE", "topic:*"),
    }
    denied = await shell("acls", "list", "--deny")
    assert denied.splitlines()[1].split() == ["User:*", "10.0.0.9", "DENY", "WRITE", "topic:*"]
    remove = ("acls", "remove", "alice", "--resource", "topic:orders")
    assert (await shell(*remove, "--dry-run")).count("would remove") == 2
    assert (await shell(*remove)).count("removed: allows User:alice") == 2
    assert len(await shell.json("acls", "list")) == 3
    assert "no such ACL" in await shell(*remove, code=1)
    assert "name what to remove" in await shell("acls", "remove", code=2)


@pytest.mark.parametrize(
    ("acls", "question", "allowed", "because"),
    [
        ([], "READ topic:orders", False, "no ACL is on this resource"),
        (["alice READ topic:orders"], "READ topic:orders", True, "READ on topic:orders"),
        (["alice READ topic:orders"], "DESCRIBE topic:orders", True, "READ on topic:orders"),
        (["alice READ topic:ord*"], "READ topic:orders", True, "READ on topic:ord*"),
        (["bob READ topic:orders"], "READ topic:orders", False, "no ACL allows it"),
        (
            ["alice READ topic:orders", "* ALL topic:* --deny"],
            "READ topic:orders",
            False,
            "denies User:* ALL on topic:*",
        ),
        (
            ["alice READ topic:orders", "* ALL topic:* --deny --host 10.0.0.9"],
            "READ topic:orders --host 10.0.0.9",
            False,
            "denies User:* from 10.0.0.9 ALL on topic:*",
        ),
        (
            ["alice READ topic:orders", "* ALL topic:* --deny --host 10.0.0.9"],
            "READ topic:orders",
            True,
            "ACLs for one address count with --host ADDRESS",
        ),
        (["alice ALTER cluster"], "DESCRIBE cluster", True, "ALTER on cluster"),
    ],
)
async def test_explain_names_the_rule_that_decides(
    shell: Shell, acls: list[str], question: str, allowed: bool, because: str
) -> None:
    """The same rules as the brokers go by."""
    for acl in acls:
        await shell("acls", "add", *acl.split())
    asked = ("acls", "explain", "User:alice", *question.split())
    said = await shell(*asked)
    operation, resource, *_ = question.split()
    may = "may" if allowed else "may not"
    assert said.startswith(f"User:alice {may} {operation} {resource}\n")
    assert because in said
    found = await shell.json(*asked)
    assert found["allowed"] is allowed
    assert (found["decides"] is None) == (because.startswith("no ACL"))
    assert len(found["acls"]) == len(acls)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("READ topik:orders", "there is no type topik: did you mean topic?"),
        ("REED topic:orders", "there is no operation REED: did you mean READ?"),
        ("READ topic:", "write it as topic:NAME"),
        ("READ,WRITE topic:orders", "name one operation"),
    ],
)
def test_a_mistyped_right_is_one_line(words: str, said: str, capsys: Any) -> None:
    """With what was probably meant."""
    with pytest.raises(SystemExit, match="2"):
        main(["acls", "explain", "alice", *words.split()])
    assert said in capsys.readouterr().err


async def test_quotas_are_set_listed_and_unset(shell: Shell) -> None:
    """Of a user, of a user's client id, of every other one; the broker checks before a dry run."""
    planned = await shell(
        "quotas", "set", "producer_byte_rate=1048577", "--user", "alice", "--dry-run"
    )
    assert planned == "would set producer_byte_rate of user alice to 1048577\n"
    assert await shell.json("quotas", "list") == []
    told = await shell("quotas", "set", "producer_byte_rate=1000", "--user", "alice")
    assert told == "set producer_byte_rate of user alice to 1000\n"
    both = ("--user", "alice", "--every-client-id")
    await shell("quotas", "set", "consumer_byte_rate=5", "request_percentage=50", *both)
    rows = await shell.json("quotas", "list")
    assert [(row["of"], row["key"], row["value"]) for row in rows] == [
        ("every client-id, user alice", "consumer_byte_rate", 5.0),
        ("every client-id, user alice", "request_percentage", 50.0),
        ("user alice", "producer_byte_rate", 1000.0),
    ]
    assert len(await shell.json("quotas", "list", *both)) == 2
    await shell("quotas", "unset", "consumer_byte_rate", "request_percentage", *both)
    assert len(await shell.json("quotas", "list")) == 1
    said = await shell("quotas", "set", "produce_byte_rate=1", "--user", "a", code=2)
    assert said == "kwire: there is no quota produce_byte_rate: did you mean producer_byte_rate?\n"
    assert "whose quota" in await shell("quotas", "set", "producer_byte_rate=1", code=2)
    refused = ("quotas", "set", "producer_byte_rate=-1", "--user", "alice", "--dry-run")
    assert "INVALID_REQUEST" in await shell(*refused, code=1)


async def test_a_token_logs_in_until_it_expires(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its secret is shown once, and later only to those who ask for it."""
    assert await shell("tokens", "create", "--dry-run") == "would create a token of who asks\n"
    assert await shell.json("tokens", "list") == []
    token = await shell.json("tokens", "create", "--renewer", "bob", "--lifetime", "1d")
    assert (token["owner"], token["renewers"]) == (ADMIN, ["User:bob"])
    [listed] = await shell.json("tokens", "list")
    assert listed == {key: value for key, value in token.items() if key != "hmac"}
    assert await shell.json("tokens", "list", "--hmac") == [token]
    assert await shell.json("tokens", "list", "User:carol") == []
    assert f"the token {token['id']} expires at" in await shell("tokens", "renew", token["id"])
    shell.login(token["id"], token["hmac"], "SCRAM-SHA-256", ' tokenauth="true"')
    await shell("topics", "list")
    shell.login("admin", "a", "PLAIN")
    await shell("tokens", "expire", token["id"])
    assert await shell.json("tokens", "list") == []
    assert "there is no token" in await shell("tokens", "renew", token["id"], code=1)


async def test_who_declines_changes_nothing(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At a terminal a command that takes something away asks; --yes answers for a script."""
    await shell("acls", "add", "alice", "READ", "topic:a")
    for answer, removed in (("n\n", False), ("", False), ("y\n", True)):
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        said = await shell("acls", "remove", "alice", code=0 if removed else 1)
        assert ("nothing was changed" in said) is not removed
        assert len(await shell.json("acls", "list")) == int(not removed)
    await shell("acls", "add", "alice", "READ", "topic:a")
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    await shell("acls", "remove", "alice", "--yes")
    assert await shell.json("acls", "list") == []

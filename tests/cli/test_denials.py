"""Who follows the line about a denial may do it afterwards."""

import shlex
from collections.abc import Iterator

import pytest

from kwire.cli import main
from kwire.cli.commands import COMMANDS
from kwire.cli.denials import NEVER_DENIED, RIGHTS
from kwire.cli.parsing import actions_of, make_parser, parse
from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.metadata.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclsCreated,
    AclsDeleted,
    PatternType,
    Permission,
    ResourceType,
)
from tests.support.arguments import arguments_of
from tests.support.in_process import ServerInThread, server_in_thread

MOST_DENIALS = 3
"""A command may be denied the topic, the group and the cluster, one after the other."""

EVERYTHING = [
    AclBinding(kind, name, PatternType.LITERAL, "User:ANONYMOUS", "*", AclOperation.ALL, 3)
    for kind, name in (
        (ResourceType.TOPIC, "*"),
        (ResourceType.GROUP, "*"),
        (ResourceType.TRANSACTIONAL_ID, "*"),
        (ResourceType.CLUSTER, CLUSTER_NAME),
    )
]


def _granted(line: str) -> list[AclBinding]:
    """The ACLs that the command in a line would create, for the user of the test."""
    given = parse(["acls", *shlex.split(line.partition("kwire acls ")[2])])
    assert (given.action, given.principal, given.deny) == ("add", "User:NAME", False)
    return [
        AclBinding(
            *(of.type, of.name, of.pattern, "User:ANONYMOUS", "*", operation, Permission.ALLOW)
        )
        for of in given.resources
        for operation in given.operations
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerInThread]:
    """A broker for all commands, with topics and groups."""
    directory = tmp_path_factory.mktemp("denying")
    (directory / "lines").write_text("one\ntwo\n", encoding="utf-8")
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "offsets.topic.num.partitions": "1",
        "share.coordinator.state.topic.num.partitions": "1",
    }
    with server_in_thread(directory / "data", settings) as made:
        _grant(made, EVERYTHING)
        for line in ("topics create a-1 gone", f"produce a-1 {directory}/lines"):
            assert _run(made, line) == 0
        assert _run(made, "share consume a-1 --group q --exit") == 0
        yield made


@pytest.fixture
def denying(server: ServerInThread, capsys: pytest.CaptureFixture[str]) -> ServerInThread:
    """That broker; nobody has rights on it, whatever the commands before were granted."""
    _grant(server, EVERYTHING)
    server.call(server.running.commit, "g", "a-1", 2)  # a command may have deleted the group
    server.call(server.running.broker.commit, lambda image: [AclsDeleted(tuple(image.acls))])
    capsys.readouterr()
    return server


def _grant(server: ServerInThread, acls: list[AclBinding]) -> None:
    server.call(server.running.broker.commit, lambda _: [AclsCreated(tuple(acls))])


def _run(server: ServerInThread, line: str) -> int:
    return main([*shlex.split(line), "-b", f"{server.running.host}:{server.running.port}"])


@pytest.mark.parametrize(
    "line",
    [
        "topics create b",
        "topics delete gone",
        "topics describe a-1",
        "topics alter a-1 --set retention.ms=1000",
        "topics add-partitions a-1 --to 3",
        "produce a-1 /etc/hostname",
        "consume a-1 --from-beginning --exit",
        "consume a-1 --from-beginning --exit --group h",
        "groups describe g",
        "groups delete g",
        "groups explain g",
        "groups reset g --topic a-1 --to-beginning --execute",
        "groups delete-offsets g --topic a-1",
        "share consume a-1 --group q --exit",
        "share describe q",
        "share reset q --topic a-1 --to-beginning",
        "share delete-offsets q a-1",
        "share dead-letters q --topic a-1",
        "configs describe topic a-1",
        "configs describe group g",
        "configs describe broker 1",
        "configs set topic a-1 retention.ms=1000",
        "configs set group g consumer.session.timeout.ms=50000",
        "configs set broker 1 log.cleaner.threads=2",
        "configs unset topic a-1 retention.ms",
        "records delete a-1 --before-offset 1",
        "transactions open a-1",
        "bench --records 10 --size 10",
        "users list",
        "users add bob --dry-run",
        "acls list",
        "acls add User:bob READ topic:a-1",
        "acls explain User:bob READ topic:a-1",
        "quotas list",
        "quotas set producer_byte_rate=1000 --user bob",
        "reassign status",
        "reassign plan a-1",
        "reassign run a-1 --brokers 1 --dry-run",
        "reassign unthrottle a-1",
        "elections list a-1",
        "elections run a-1",
    ],
)
def test_the_line_about_a_denial_grants_what_is_missing(denying, capsys, line: str):
    """After as many lines as the command has resources; the line names right and resource."""
    assert _run(denying, line) == 1
    for _ in range(MOST_DENIALS):
        said = capsys.readouterr().err
        said = "".join(one for one in said.splitlines(True) if not one.startswith("plan: "))
        assert said.count("\n") == 1
        assert "_AUTHORIZATION_FAILED; it needs " in said
        acls = _granted(said)
        assert all(acl.operation for acl in acls)
        _grant(denying, acls)
        if _run(denying, line) == 0:
            break
    else:
        pytest.fail(capsys.readouterr().err)


@pytest.mark.parametrize("line", ["transactions describe t", "transactions abort t"])
def test_a_transaction_that_is_denied(denying, capsys, line: str):
    """There is none, but nobody is told so without the right."""
    _run(denying, line)
    acls = _granted(capsys.readouterr().err)
    _grant(denying, acls)
    _run(denying, line)
    assert "TRANSACTIONAL_ID_NOT_FOUND" in capsys.readouterr().err


def test_only_the_denied_of_several_is_named(denying, capsys):
    """A user who may read one topic needs the right on the other."""
    everything_on_a = EVERYTHING[0]._replace(name="a-1")
    _grant(denying, [everything_on_a])
    _run(denying, "topics describe a-1 b")
    assert {acl.name for acl in _granted(capsys.readouterr().err)} == {"b"}
    _run(denying, "consume a-1 'b' --exit")
    assert {acl.name for acl in _granted(capsys.readouterr().err)} == {"b"}


def test_every_command_that_asks_a_cluster_is_in_the_table() -> None:
    """A new command, too."""
    _, commands = make_parser(COMMANDS)
    asking = set()
    for name, parser in commands.choices.items():
        inner = actions_of(parser)
        leaves = inner[0].choices if inner else {"": parser}
        if name == "pipeline":
            continue  # only writes the addresses into a file
        for action, leaf in leaves.items():
            if any(one.dest == "bootstrap_server" for one in arguments_of(leaf)):
                asking.add((name, action))
    assert asking == {*RIGHTS, *NEVER_DENIED}
    assert not {*RIGHTS} & NEVER_DENIED

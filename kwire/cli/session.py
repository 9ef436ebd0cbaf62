"""Runs a command on a cluster: opens the cluster, and turns errors into one line each.

An error line names the address or the thing, what went wrong, and what to do next.
"""

import argparse
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kwire.cli.output import CommandError as CommandError
from kwire.cli.output import fail, wrong

if TYPE_CHECKING:
    from kwire.cli.profiles import Profile
    from kwire.client.cluster import Cluster
    from kwire.client.peer import OpenStream
    from kwire.errors import KafkaError

HINTS = {
    "UNKNOWN_TOPIC_OR_PARTITION": "kwire topics list shows the topics",
    "TOPIC_ALREADY_EXISTS": "choose another name, or --if-not-exists",
    "GROUP_ID_NOT_FOUND": "kwire groups list shows the groups",
    "NON_EMPTY_GROUP": "stop its members first; kwire groups describe shows them",
    "GROUP_SUBSCRIBED_TO_TOPIC": "stop its members first; kwire groups describe shows them",
    "UNKNOWN_MEMBER_ID": "the group has members: stop them first; kwire groups describe shows them",
    "INCONSISTENT_GROUP_PROTOCOL": "its members don't use the assignor range: use another --group",
    "MESSAGE_TOO_LARGE": "raise max.message.bytes of the topic with kwire configs set, or write "
    "smaller records",
    "TRANSACTIONAL_ID_NOT_FOUND": "kwire transactions list shows the transactions",
    "INVALID_REPLICATION_FACTOR": "kwire cluster brokers shows how many brokers there are",
    "LEADER_NOT_AVAILABLE": "kwire health says which brokers or disks are missing, and what to do",
    "NOT_ENOUGH_REPLICAS": "kwire health shows which replicas are missing",
    "SECURITY_DISABLED": "the brokers have no authorizer, so everybody may do everything: kwire "
    "secure init makes the settings of a broker that has one",
    "DELEGATION_TOKEN_AUTH_DISABLED": "set delegation.token.secret.key on the brokers",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": "tokens are for who has logged in with a password or "
    "a certificate",
}
"""What to do after an error of Kafka's."""


def run_on_cluster(options: argparse.Namespace, work: "Callable[[Cluster], Awaitable[int]]") -> int:
    """Run ``work`` on the cluster that the options name; returns the exit code."""
    from kwire.cli.profiles import ProfileError, WrongOption, find_profile

    try:
        profile = find_profile(options.bootstrap_server, options.cluster, options.command_config)
    except ProfileError as error:
        refuse = wrong if isinstance(error, WrongOption) else fail
        return refuse(str(error))

    import gc

    from kwire.cli.deferred import UNUSED_BY_A_BROKER, defer

    gc.disable()  # imported objects stay: collections would only take time from a short command
    defer(UNUSED_BY_A_BROKER)
    import trio

    from kwire.client.cluster import open_cluster
    from kwire.client.leaders import first_error
    from kwire.client.peer import open_tcp
    from kwire.client.settings import ClientSettings

    gc.freeze()
    gc.enable()
    open_stream: OpenStream = open_tcp
    try:
        if profile.command_config:
            profile, open_stream = _with_command_config(profile)
    except ProfileError as error:
        return fail(str(error))
    settings = ClientSettings(
        client_id=profile.client_id,
        connect_timeout_s=min(options.timeout, ClientSettings().connect_timeout_s),
        request_timeout_s=options.timeout,
        give_up_s=options.timeout,
        tell=lambda text: fail(f"{text}; waiting, {options.timeout:g} s at most (--timeout)"),
    )

    async def whole() -> int:
        async with open_cluster(profile.addresses, settings, open_stream) as cluster:
            try:
                return await work(cluster)
            except Exception as raised:
                cause = first_error(raised)
                found = await _not_found(cluster, cause, options)
                if found is not None:
                    raise found from raised
                raise

    try:
        return trio.run(whole)
    except BaseException as raised:
        cause = first_error(raised)
        said = _said(cause, options, is_secured=profile.command_config is not None)
        if said is not None:
            return fail(said)
        if cause is raised:
            raise
        raise cause from raised


def _with_command_config(profile: "Profile") -> "tuple[Profile, OpenStream]":
    """The cluster with its client properties, and a function that opens streams; ProfileError."""
    from kwire.cli.process_tuning import leave_no_dump
    from kwire.cli.profiles import ProfileError, parse_addresses
    from kwire.security.client_properties import ClientFileError, read_client_properties

    assert profile.command_config is not None
    leave_no_dump()
    try:
        found = read_client_properties(profile.command_config)
    except ClientFileError as error:
        raise ProfileError(str(error)) from error
    if found.bootstrap_servers and not profile.is_named:
        profile = profile._replace(addresses=parse_addresses(found.bootstrap_servers))
    profile = profile._replace(client_id=found.client_id or profile.client_id)
    return profile, found.open_stream


def _said(cause: BaseException, options: argparse.Namespace, *, is_secured: bool) -> str | None:
    """The line about an error of a command; None for one that is a bug."""
    from kwire.client.errors import (
        BadAnswer,
        CannotConnect,
        ClientError,
        ConnectionLost,
        NotLetIn,
        OtherProtocol,
    )
    from kwire.errors import KafkaError
    from kwire.protocol.wire import UnencodableMessage

    match cause:
        case NotLetIn():
            return f"cannot connect to {cause}; look at the file of --command-config"
        case CannotConnect():
            return (
                f"cannot connect to {cause}; start a broker with kwire serve, or name a running "
                "one with --bootstrap-server HOST:PORT"
            )
        case KafkaError():
            return described(cause, options)
        case OtherProtocol():
            return str(cause)
        case BadAnswer() | ConnectionLost() if not is_secured:
            return (
                f"{cause}; is it a Kafka broker? If its listener has TLS or a login, name a file "
                "of Kafka's client properties with --command-config"
            )
        case ClientError() | CommandError():
            return str(cause)
        case UnencodableMessage():
            return f"Kafka's protocol has no room for what was given: {cause}"
    return None


async def _not_found(
    cluster: "Cluster", error: BaseException, options: argparse.Namespace
) -> CommandError | None:
    """The error about a topic or group that does not exist, with what was meant; else None."""
    from kwire.cli.denials import groups_of, topics_of
    from kwire.cli.suggestions import did_you_mean
    from kwire.client.group_overview import types_of_groups
    from kwire.errors import ErrorCode, KafkaError

    code = error.code if isinstance(error, KafkaError) else None
    words = {word.strip("'") for word in str(error).replace(":", " ").split()}
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        for name in words.intersection(topics_of(options)):
            return await no_topic(cluster, name)
    elif code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
        for name in words.intersection(groups_of(options)):
            known = await types_of_groups(cluster)
            if known.get(name) == "share":
                return CommandError(f"{name} is a share group: kwire share takes it")
            if code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                return None
            if name in known:
                return CommandError(
                    f"group {name} is of a type that this command doesn't take: kwire groups list "
                    "shows the type"
                )
            guess = did_you_mean(name, known)
            return CommandError(f"there is no group {name}{guess}") if guess else None
    return None


async def no_topic(cluster: "Cluster", name: str, otherwise: str = "") -> CommandError:
    """The error about a topic that does not exist, with the topic that was probably meant.

    ``otherwise`` says what to do if none was.
    """
    from kwire.cli.suggestions import did_you_mean
    from kwire.client.errors import ClientError

    try:
        found = await cluster.metadata(None)
    except ClientError:
        names = []
    else:
        names = [topic.name or "" for topic in found.topics if not topic.is_internal]
    guess = did_you_mean(name, names) or f"; {otherwise or HINTS['UNKNOWN_TOPIC_OR_PARTITION']}"
    return CommandError(f"there is no topic {name}{guess}")


def described(error: "KafkaError", options: argparse.Namespace, name: str = "") -> str:
    """An error of Kafka's with what to do next; ``name`` is what it is about, if that is known."""
    from kwire.cli.denials import remedy

    if error.code.name == "SECURITY_DISABLED":
        return f"{HINTS[error.code.name]} ({error.code.name})"  # the message says the same
    said = error.message.rstrip(".")
    text = f"{said}: {error.code.name}" if said else error.code.name
    hint = HINTS.get(error.code.name) or remedy(error, options, name) or _meant(error, options)
    return f"{text}; {hint}" if hint else text


def _meant(error: "KafkaError", options: argparse.Namespace) -> str:
    """What to say about a config that does not exist; empty if all of the command line do."""
    from kwire.cli.suggestions import did_you_mean
    from kwire.config.settings import BROKER, CLIENT_METRICS, GROUP, TOPIC, settings
    from kwire.errors import ErrorCode

    scopes = {"topic": TOPIC, "group": GROUP, "broker": BROKER, "client-metrics": CLIENT_METRICS}
    scope = scopes.get(getattr(options, "type", "topic"))
    if error.code is not ErrorCode.INVALID_CONFIG or scope is None:
        return ""
    given = [*getattr(options, "configs", []), *getattr(options, "values", [])]
    given += getattr(options, "unset", [])
    known = settings(scope)
    for one in given:
        name = one[0] if isinstance(one, tuple) else one
        guess = "" if name in known else did_you_mean(name, known)
        if guess:
            return f"{name}{guess}"
    return ""

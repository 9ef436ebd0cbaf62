"""How a command talks to a cluster: opens it, runs, and turns errors into one line each.

An error line names the address or the thing, what went wrong, and what to do next.
"""

import argparse
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kwire.cli.output import CommandError as CommandError
from kwire.cli.output import fail, wrong

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
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
    "NOT_ENOUGH_REPLICAS": "kwire health shows which replicas are missing",
}
"""What to do after an error of Kafka's."""


def run_on_cluster(options: argparse.Namespace, work: "Callable[[Cluster], Awaitable[int]]") -> int:
    """Run ``work`` on the cluster that the options name; returns the exit code."""
    from kwire.cli.profiles import ProfileError, WrongOption, find_profile

    try:
        profile = find_profile(options.bootstrap_server, options.cluster)
    except ProfileError as error:
        refuse = wrong if isinstance(error, WrongOption) else fail
        return refuse(str(error))

    import gc

    from kwire.cli.deferred import UNUSED_BY_A_BROKER, defer

    gc.disable()  # what is imported stays: collections would only take time from a short command
    defer(UNUSED_BY_A_BROKER)
    import trio

    from kwire.client.cluster import open_cluster
    from kwire.client.errors import AnswerTimeout, BadAnswer, CannotConnect, ClientError
    from kwire.client.leaders import first_error
    from kwire.client.settings import ClientSettings
    from kwire.errors import KafkaError
    from kwire.protocol.wire import UnencodableMessage

    gc.freeze()
    gc.enable()
    settings = ClientSettings(
        client_id=profile.client_id,
        connect_timeout_s=min(options.timeout, ClientSettings().connect_timeout_s),
        request_timeout_s=options.timeout,
        give_up_s=options.timeout,
    )

    async def whole() -> int:
        async with open_cluster(profile.addresses, settings) as cluster:
            return await work(cluster)

    try:
        return trio.run(whole)
    except BaseException as raised:
        cause = first_error(raised)
        if isinstance(cause, CannotConnect):
            return fail(
                f"cannot connect to {cause}; start a broker with kwire serve, or name a running "
                "one with --bootstrap-server HOST:PORT"
            )
        if isinstance(cause, KafkaError):
            return fail(described(cause))
        if isinstance(cause, BadAnswer | AnswerTimeout):
            return fail(f"{cause}; is it a Kafka broker, and the port of a plaintext listener?")
        if isinstance(cause, ClientError | CommandError):
            return fail(str(cause))
        if isinstance(cause, UnencodableMessage):
            return fail(f"Kafka's protocol has no room for what was given: {cause}")
        if cause is raised:
            raise
        raise cause from raised


def described(error: "KafkaError") -> str:
    """An error of Kafka's with what to do next."""
    said = error.message.rstrip(".")
    text = f"{said}: {error.code.name}" if said else error.code.name
    hint = HINTS.get(error.code.name)
    return f"{text}; {hint}" if hint else text

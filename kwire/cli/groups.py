"""``kwire groups explain``: why and when a group has rebalanced.

Only kwire knows the request. Another broker closes the connection.
"""

import argparse
import time
from datetime import datetime
from typing import TYPE_CHECKING

from kwire.cli.output import fail

if TYPE_CHECKING:
    from kwire.protocol.messages.explain_group import ExplainGroupResponse
    from kwire.protocol.messages.find_coordinator import Coordinator

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
_FIND_VERSION = 4
TRY_AGAIN_S = 0.25


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    groups = commands.add_parser("groups", help="ask a broker about groups")
    actions = groups.add_subparsers(dest="action", required=True, metavar="ACTION")
    explain = actions.add_parser(
        "explain",
        help="explain why a group has rebalanced",
        description="Prints which members joined, left or sent no heartbeat in time, and which "
        "rebalances followed.",
    )
    explain.add_argument("group", metavar="GROUP", help="the id of the group")
    explain.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        default=DEFAULT_BOOTSTRAP,
        help=f"the broker to ask (default: {DEFAULT_BOOTSTRAP})",
    )
    explain.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Explain a group; returns the exit code."""
    from kwire.config.broker import is_port
    from kwire.errors import ErrorCode, KafkaError

    host, _, port = options.bootstrap_server.rpartition(":")
    if not host or not is_port(port):
        return fail(f"{options.bootstrap_server} is not HOST:PORT")
    try:
        found = _ask(host.strip("[]"), int(port), options.group)
    except KafkaError as error:
        return fail(str(error))
    except ConnectionResetError:
        return fail(f"{options.bootstrap_server} closed the connection: is it a kwire broker?")
    except TimeoutError as error:
        return fail(f"{error}: is it a broker? name one with --bootstrap-server HOST:PORT")
    except OSError as error:
        return fail(
            f"cannot ask {options.bootstrap_server}: {error.strerror or error}; "
            "name a running broker with --bootstrap-server HOST:PORT"
        )
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return fail(f"{options.bootstrap_server} knows no group {options.group}")
    if found.error_code:
        return fail(f"group {options.group}: {ErrorCode(found.error_code).name}")
    _print(options.group, found)
    return 0


def _ask(host: str, port: int, group: str) -> "ExplainGroupResponse":
    """Ask the coordinator of a group, which may be another broker than the given one."""
    from kwire.cli.connection import Connection
    from kwire.protocol.messages.explain_group import ExplainGroupRequest, ExplainGroupResponse

    home = _find_coordinator(host, port, group)
    with Connection(home.host, home.port) as connection:
        try:
            response = connection.ask(ExplainGroupRequest(group_id=group), 0)
        except ConnectionError as error:
            raise ConnectionResetError from error
    assert isinstance(response, ExplainGroupResponse)
    return response


def _find_coordinator(host: str, port: int, group: str) -> "Coordinator":
    """The coordinator of a group. A broker that has just started is asked again for a while."""
    from kwire.cli.connection import TIMEOUT_S, Connection
    from kwire.errors import ErrorCode, KafkaError
    from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest

    give_up_s = time.monotonic() + TIMEOUT_S
    with Connection(host, port) as connection:
        while True:
            asked = FindCoordinatorRequest(coordinator_keys=[group])
            [home] = connection.ask(asked, _FIND_VERSION).coordinators
            if not home.error_code:
                found: Coordinator = home
                return found
            code = ErrorCode(home.error_code)
            if code is not ErrorCode.COORDINATOR_NOT_AVAILABLE or time.monotonic() > give_up_s:
                raise KafkaError(code, home.error_message or "the group has no coordinator yet")
            time.sleep(TRY_AGAIN_S)


def _print(group: str, found: "ExplainGroupResponse") -> None:
    from kwire.cli.log_lines import one_line

    state = f"{found.group_state} ({found.group_type})" if found.group_state else "gone"
    print(f"{group}: {state}")
    for event in found.events:
        at = datetime.fromtimestamp(event.at_ms / 1000).astimezone()
        print(f"  {at.isoformat(sep=' ', timespec='milliseconds')}  {one_line(event.text)}")
    if not found.events:
        print("  nothing has happened since the broker started")

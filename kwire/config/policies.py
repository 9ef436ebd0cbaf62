"""The operator's policies: Python functions that may refuse new topics and changes of configs.

Rules:

- Kafka names a Java class; kwire runs none, so the settings name ``module:function``. Python has to
  find the module: it is installed, or in a directory of PYTHONPATH.
- A function takes one request (``NewTopicRequest``, ``ConfigsRequest``), which is its own copy. It
  returns None, or the reason why the broker refuses: a text, whose first ``MOST_OF_REASON``
  characters the client gets. It runs on the event loop, so it has to be quick.
- A function that raises, or returns anything else, refuses, too. The client learns only that the
  policy failed; the log names the policy, and not the request, whose configs may be passwords.
- The broker that is asked decides. So all brokers of a cluster need the same policies.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from importlib import import_module
from typing import Any, NamedTuple

from kwire.config.values import ConfigError
from kwire.errors import ErrorCode, KafkaError

CREATE_TOPIC = "create.topic.policy.class.name"
ALTER_CONFIG = "alter.config.policy.class.name"

MOST_OF_REASON = 1000

log = logging.getLogger(__name__)

Policy = Callable[[Any], str | None]


class NewTopicRequest(NamedTuple):
    """A topic that a client wants; ``assignments`` has the node ids of each partition it gives."""

    topic: str
    partitions: int
    replication_factor: int
    assignments: Mapping[int, Sequence[int]]
    configs: Mapping[str, str]


class ConfigsRequest(NamedTuple):
    """The configs that a client sets for a resource, such as ("TOPIC", "orders")."""

    resource_type: str
    resource_name: str
    configs: Mapping[str, str]


def policy(setting: str, text: object) -> Policy | None:
    """The function that a setting names; None if it names none. ConfigError."""
    if not text:
        return None
    module, colon, name = str(text).partition(":")
    if not colon:
        problem = "must be module:function, a function of Python: kwire runs no Java classes"
        raise ConfigError(setting, str(text), problem)
    try:
        function = getattr(import_module(module), name)
    except Exception as error:  # importing runs the operator's code
        raise ConfigError(setting, str(text), f"can't be imported: {error}") from error
    if not callable(function):
        raise ConfigError(setting, str(text), f"{name} is no function")
    found: Policy = function
    return found


def check(policy: Policy | None, request: NewTopicRequest | ConfigsRequest) -> None:
    """Raise KafkaError (POLICY_VIOLATION) for a request that the policy refuses."""
    if policy is None:
        return
    try:
        reason = policy(deepcopy(request))
        if not isinstance(reason, str | None):
            raise TypeError(f"a policy returns None or a text, not {type(reason).__name__}")
    except (Exception, SystemExit) as error:  # the operator's code may raise anything
        log.exception("the policy %s failed for a %s", policy, type(request).__name__)
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The broker's policy failed.") from error
    if reason is not None:
        text = reason[:MOST_OF_REASON].encode(errors="replace").decode()  # any text, as UTF-8
        raise KafkaError(ErrorCode.POLICY_VIOLATION, text)

"""What the client of a request may do with schemas, as the broker's authorizer says.

A subject has the rights of its topic: ``orders-key`` and ``orders-value``, in whatever context, are
of the topic ``orders``. Other subjects, which belong to no topic by their name, and what concerns
all subjects, are the cluster's:

==================================================  ===============  ===============
what                                                of a topic       of the cluster
==================================================  ===============  ===============
read, look up, compare; refer to                    DESCRIBE         DESCRIBE
register                                            WRITE            CREATE
delete                                              DELETE           ALTER
settings of compatibility                           ALTER_CONFIGS    ALTER_CONFIGS
modes (an import may use up the ids of everybody)                    ALTER
contexts                                                             DESCRIBE
==================================================  ===============  ===============

A schema by its id may be read by whoever may read one of the subjects that have it. Lists have what
the client may read. READ and WRITE imply DESCRIBE.

The authorizer belongs to the broker's loop, so it is asked there, in slices; the audit log is the
broker's, with ``SchemaRegistry`` as the name of the API.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import Enum
from typing import Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar

from kwire.budget.slices import Slices
from kwire.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from kwire.registry.names import split_subject
from kwire.registry.refusals import Refused, denied
from kwire.security.audit import note_answer
from kwire.security.principal import ANONYMOUS, Principal
from kwire.web.cross_loop_calls import BrokerCalls, NotServing, Observed

API = "SchemaRegistry"
_P = ParamSpec("_P")
_T = TypeVar("_T")

SUFFIXES = ("-key", "-value")


class Asking(NamedTuple):
    """The client of a request."""

    principal: Principal = ANONYMOUS
    peer_host: str = ""


class Right(Enum):
    """What a request needs: the operation on a topic, and on the cluster."""

    READ = AclOperation.DESCRIBE, AclOperation.DESCRIBE
    REGISTER = AclOperation.WRITE, AclOperation.CREATE
    DELETE = AclOperation.DELETE, AclOperation.ALTER
    CONFIGURE = AclOperation.ALTER_CONFIGS, AclOperation.ALTER_CONFIGS


Question: TypeAlias = tuple[AclOperation, ResourceType, str]


def question(right: Right, subject: str) -> Question:
    """What the authorizer is asked for a right on a subject; "" stands for all subjects."""
    of_topic, of_cluster = right.value
    _, name = split_subject(subject)
    topic = next((name.removesuffix(one) for one in SUFFIXES if name.endswith(one)), "")
    if topic:
        return of_topic, ResourceType.TOPIC, topic
    return of_cluster, ResourceType.CLUSTER, CLUSTER_NAME


MODES: Question = (AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
"""Needed to change a mode."""


class Rights:
    """The rights of clients; without ``calls`` there is no authorizer, and all may do everything.

    Its methods raise Refused: 40301 for what is denied, 50001 if the broker doesn't answer.
    """

    def __init__(self, calls: BrokerCalls | None = None) -> None:
        self._calls = calls

    @property
    def are_asked(self) -> bool:
        """Whether there is an authorizer."""
        return self._calls is not None

    async def check(self, client: Asking, *questions: Question) -> None:
        """Refuse the request unless the client may do all of this."""
        if await self._first(client, questions, wanted=False) is not None:
            raise denied()

    async def check_any(self, client: Asking, questions: Sequence[Question]) -> None:
        """Refuse the request unless the client may do one of these, of which there is one."""
        assert questions
        if self.are_asked and await self._first(client, questions, wanted=True) is None:
            raise denied()

    async def readable(self, client: Asking, subjects: Iterable[str]) -> Iterable[str]:
        """The subjects that the client may read, in their order."""
        if self._calls is None:
            return subjects
        listed = list(subjects)
        asked = {one: question(Right.READ, one) for one in listed}
        allowed = await self._ask(_allowed, client, list(dict.fromkeys(asked.values())))
        return [one for one in listed if asked[one] in allowed]

    async def _first(
        self, client: Asking, questions: Iterable[Question], *, wanted: bool
    ) -> Question | None:
        """The first question with this answer; None if there is none, or no authorizer."""
        if self._calls is None:
            return None
        each_once = list(dict.fromkeys(questions))
        return await self._ask(_first_with, client, each_once, wanted)

    async def _ask(
        self,
        gather: Callable[Concatenate[Observed, _P], Awaitable[_T]],
        *arguments: _P.args,
        **more: _P.kwargs,
    ) -> _T:
        assert self._calls is not None
        try:
            return await self._calls.run(gather, *arguments, **more)
        except NotServing as error:
            raise Refused(50001, str(error)) from error


async def _first_with(
    observed: Observed, client: Asking, questions: list[Question], wanted: bool
) -> Question | None:
    slices = Slices()
    for one in questions:
        is_last = one is questions[-1]
        if _may(observed, client, one, tells_denied=is_last or not wanted) == wanted:
            return one
        await slices.give_way()
    return None


async def _allowed(observed: Observed, client: Asking, questions: list[Question]) -> set[Question]:
    slices, found = Slices(), set()
    for one in questions:
        if _may(observed, client, one, tells_denied=False):
            found.add(one)
        await slices.give_way()
    return found


def _may(observed: Observed, client: Asking, asked: Question, *, tells_denied: bool) -> bool:
    authorizer = observed.broker.authorizer
    assert authorizer is not None
    rule = authorizer.rule(client, *asked)
    if rule.is_allowed or tells_denied:
        note_answer(authorizer, client, API, asked, rule)
    return rule.is_allowed

"""``/healthz`` and ``/readyz``, for programs that start, restart and balance brokers.

``/healthz`` is 200 while the broker's event loop turns, also during a long start or recovery. If it
is 503, a restart is the remedy.

``/readyz`` is 200 while the broker serves everything: its listeners are open, its coordinators are
loaded, and all its data directories are online. Otherwise it is 503, with one line for each reason.
What is wrong beside the broker, as in its schema registry, stands under ``ready``, for it keeps no
client of Kafka away.
"""

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from kwire.errors import ErrorCode, KafkaError
from kwire.web.cross_loop_calls import BrokerCalls, NotServing, Observed


def routes(broker_calls: BrokerCalls) -> list[Route]:
    """The routes of this module."""

    async def healthz(_: Request) -> Response:
        turn_s = await broker_calls.loop_turn_s()
        return PlainTextResponse(f"ok: the event loop turned within {turn_s * 1000:.1f} ms\n")

    async def readyz(_: Request) -> Response:
        try:
            reasons = await broker_calls.run(reasons_against)
            problems = await broker_calls.run(_problems)
        except NotServing as error:
            reasons = [str(error)]
        if reasons:
            return PlainTextResponse("\n".join(reasons) + "\n", status_code=503)
        return PlainTextResponse("\n".join(["ready", *problems]) + "\n")

    return [Route("/healthz", healthz), Route("/readyz", readyz)]


async def reasons_against(observed: Observed) -> list[str]:
    """The reasons why the broker isn't ready, a line for each; empty if it is ready."""
    if observed.not_serving:
        return [observed.not_serving]
    broker = observed.broker
    reasons = [
        f"the data directory {path} is offline: {why}"
        for path, why in broker.log_manager.failures.items()
    ]
    for coordinators in broker.coordinators:
        try:
            coordinators.all_coordinators()
        except KafkaError as error:
            if error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                reasons.append(f"{coordinators.topic_name} is being loaded")
    return reasons


async def _problems(observed: Observed) -> list[str]:
    return [found for problem in observed.problems if (found := problem())]

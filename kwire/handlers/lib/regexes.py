"""Compiles the regular expressions of requests ahead, in a thread.

An expression takes milliseconds to compile. The first expression also loads the library for that,
which takes most of a second. The compiled expression is kept, so that the event loop finds it.
"""

from functools import partial

from kwire.budget.work import Work
from kwire.coordinator.consumer.regexes import check_regex
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.waiting import later


async def compile_ahead(regex: str, context: RequestContext) -> None:
    """Compile an expression; KafkaError (INVALID_REGULAR_EXPRESSION)."""
    await later(partial(_compile, regex, context))


async def _compile(regex: str, context: RequestContext) -> None:
    work: Work = context.work
    await context.broker.threads.regexes.run(work, lambda regex, between: check_regex(regex), regex)

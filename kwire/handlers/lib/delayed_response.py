"""Holds back a coordinator's response until everything behind it is replicated
(``kwire.broker.delayed_response``).

Rules:

- A response rests on all records that its coordinator's partition has when the response is made.
- If these records can't be replicated, the client gets the same kind of response with an error:
  NOT_COORDINATOR if the partition has another leader or epoch, COORDINATOR_NOT_AVAILABLE if the
  replicas don't answer in time. Clients repeat their request after both errors.
- The wait needs no task.
"""

from collections.abc import Collection
from typing import Any

import trio

from kwire.broker.delayed import Delayed
from kwire.broker.delayed_response import CommittedRecords
from kwire.broker.flusher import Demand, Flush
from kwire.errors import ErrorCode
from kwire.handlers.lib.waiting import happens, later
from kwire.protocol.error_codes import refused


async def delayed_response(response: Any, demands: Collection[Demand]) -> Any:
    """Return a response after its flushes, and after its records are replicated.

    Raises KafkaError if a sync fails.
    """
    rested_on = [(one, one.end_offset) for one in demands if isinstance(one, CommittedRecords)]
    for flush in demands:
        if isinstance(flush, Flush):
            await later(flush.wait)
    for committed, offset in rested_on:
        code = await _outcome(committed, offset)
        if code:
            return None if response is None else refused(response, code)
    return response


async def _outcome(committed: CommittedRecords, offset: int) -> ErrorCode:
    if not committed.covers(offset):
        change = Delayed(trio.current_time() + committed.timeout_s)
        committed.wait_for(offset, change, change.deadline_s)
        await happens(change)
    return committed.refusal(offset)

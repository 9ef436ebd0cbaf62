"""Jobs of coordinators: one thread for each kind."""

import threading

import trio

from kwire.broker.jobs import Jobs
from kwire.budget.threads import Threads
from kwire.coordinator.effects import Job, JobKind


async def test_an_assignment_does_not_wait_for_expressions():
    """A client chooses the cost of its expressions; the assignments of others go on."""
    gate, begun, done = threading.Event(), threading.Event(), []

    def match():
        begun.set()
        gate.wait()

    def take(job, result):
        done.append(job.name)

    async with trio.open_nursery() as nursery:
        jobs = Jobs(nursery, Threads(), [])
        jobs.start_job(Job("match", match, lambda *_: None, JobKind.MATCHING), lambda: True, take)
        await trio.to_thread.run_sync(begun.wait)
        jobs.start_job(Job("assign", lambda: None, lambda *_: None), lambda: True, take)
        while not done:
            await trio.lowlevel.checkpoint()
        assert done == ["assign"]
        gate.set()
    assert done == ["assign", "match"]


async def test_a_job_is_abandoned_when_the_broker_stops():
    """Its thread only computes, so nobody waits for it."""
    gate, begun = threading.Event(), threading.Event()

    def assign():
        begun.set()
        gate.wait()

    async with trio.open_nursery() as nursery:
        jobs = Jobs(nursery, Threads(), [])
        jobs.start_job(Job("assign", assign, lambda *_: None), lambda: True, lambda *_: None)
        await trio.to_thread.run_sync(begun.wait)
        nursery.cancel_scope.cancel()
    assert not gate.is_set()
    gate.set()

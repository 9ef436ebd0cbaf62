"""Work for requests that don't come from a connection."""

from kwire.budget.work import Turns, Work


def free_work() -> Work:
    """The work of a client that stays connected, in an event loop without other work."""
    work = Work(Turns(), is_gone=lambda: False)
    work.begin_request(0)
    return work

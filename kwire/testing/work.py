"""Work for requests that no connection has sent."""

from kwire.budget.work import Turns, Work


def free_work() -> Work:
    """The work of a client that stays, in an event loop that nobody else uses."""
    work = Work(Turns(), is_gone=lambda: False)
    work.begin_request(0)
    return work

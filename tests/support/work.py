"""Work for requests that don't come from a connection."""

from kwire.budget.work import Turns, Work


def free_work() -> Work:
    """The work of a client that stays connected; time stands still, so its slice is never over."""
    work = Work(Turns(clock=lambda: 0.0), is_gone=lambda: False)
    work.begin_request()
    return work

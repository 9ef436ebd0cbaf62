"""Notes about writes of transactions that another broker coordinates; see remote_verification."""


class Note:
    """A question about a producer's write to a partition; ``is_answered`` if it may happen."""

    __slots__ = ("epoch", "is_answered")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.is_answered = False

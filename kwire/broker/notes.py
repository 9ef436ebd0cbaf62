"""Notes about writes that wait for a transaction's coordinator; see remote_verification."""


class Note:
    """A question about a producer's write to a partition; ``is_answered`` if the write may happen.

    ``epoch`` is the producer's. ``leader_epoch`` is the partition's, -1 if it isn't led here: in a
    newer epoch the question has to be asked again.
    """

    __slots__ = ("epoch", "is_answered", "leader_epoch")

    def __init__(self, epoch: int, leader_epoch: int) -> None:
        self.epoch = epoch
        self.leader_epoch = leader_epoch
        self.is_answered = False

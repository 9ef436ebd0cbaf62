"""Notes about writes of transactions whose coordinator has to be waited for; see
remote_verification."""


class Note:
    """A question about a producer's write to a partition; ``is_answered`` if it may happen.

    ``epoch`` is the producer's. ``leader_epoch`` is the partition's, -1 if it isn't led here: in a
    newer epoch the question has to be asked again.
    """

    __slots__ = ("epoch", "is_answered", "leader_epoch")

    def __init__(self, epoch: int, leader_epoch: int) -> None:
        self.epoch = epoch
        self.leader_epoch = leader_epoch
        self.is_answered = False

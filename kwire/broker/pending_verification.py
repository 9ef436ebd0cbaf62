"""A write that its transaction's coordinator has to verify; see remote_verification."""


class PendingVerification:
    """Whether a producer's write to a partition may happen: ``is_answered`` if it may.

    ``epoch`` is the producer's. ``leader_epoch`` is the partition's, -1 if it isn't led here: in a
    newer epoch the coordinator has to be asked again.
    """

    __slots__ = ("epoch", "is_answered", "leader_epoch")

    def __init__(self, epoch: int, leader_epoch: int) -> None:
        self.epoch = epoch
        self.leader_epoch = leader_epoch
        self.is_answered = False

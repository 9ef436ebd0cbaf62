"""The errors that stop a read of segments; each text is one line."""


class SegmentsError(Exception):
    """A read that can't give the rows it was asked for."""


class CorruptSegment(SegmentsError):
    """Bytes of a segment that aren't the batches they should be: file, position and reason."""


class LostRecords(SegmentsError):
    """Records that were to be read are no longer there."""


class OtherTopic(SegmentsError):
    """The directory now holds another topic of the same name."""

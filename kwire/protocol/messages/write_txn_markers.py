"""WriteTxnMarkers (API key 27): writes the markers that end transactions into partitions.

Versions 1 to 2, flexible. Changes by version:

- 2: the request gains ``WritableTxnMarker.transaction_version``; KIP-1228.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
)


class WritableTxnMarkerTopic(Nested):
    """An element of ``topics`` in ``WritableTxnMarker``."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


class WritableTxnMarker(Nested):
    """An element of ``markers`` in ``WriteTxnMarkersRequest``."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8(since=2, ignorable=True)


class WriteTxnMarkersRequest(Request, key=27, versions=(1, 2), flexible=1):
    """Writes the markers that end transactions into partitions."""

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Nested):
    """An element of ``partitions`` in ``WritableTxnMarkerTopicResult``."""

    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Nested):
    """An element of ``topics`` in ``WritableTxnMarkerResult``."""

    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Nested):
    """An element of ``markers`` in ``WriteTxnMarkersResponse``."""

    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Response, key=27, versions=(1, 2), flexible=1):
    """The answer to ``WriteTxnMarkersRequest``."""

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)

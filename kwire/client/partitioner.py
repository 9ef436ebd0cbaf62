"""The partition of a record: by its key as Kafka's producers do, else one after the other.

The hash of a key is Murmur2 with Kafka's seed, so that records with the same key go where Java
producers put them. Source: Utils.murmur2, BuiltInPartitioner of Kafka.
"""

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition, from 0 on, of a record with a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """The 32-bit Murmur2 hash of a key, unsigned."""
    length = len(data)
    found = (_SEED ^ length) & _MASK
    whole = length & ~3
    for position in range(0, whole, 4):
        block = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        block = (block ^ block >> 24) * _M & _MASK
        found = (found * _M & _MASK) ^ block
    if whole < length:
        found = (found ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    found = (found ^ found >> 13) * _M & _MASK
    return found ^ found >> 15

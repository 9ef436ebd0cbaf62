"""Record batches (magic 2): the same bytes on the wire and on disk. Pure: bytes in, bytes out."""

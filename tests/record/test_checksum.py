"""The checksum is that of the package it comes from."""

import random
import sys

import crc32c as package

from kwire.record import checksum


def test_it_is_crc_32c():
    """Of any data, in one go or in pieces."""
    data = random.Random(1).randbytes(10_000)
    assert checksum.crc32c(b"123456789") == 0xE3069283
    assert checksum.crc32c(data) == package.crc32c(data)
    assert checksum.crc32c(memoryview(data)[5000:], checksum.crc32c(data[:5000])) == (
        package.crc32c(data)
    )


def test_without_its_extension_in_place_the_package_is_imported():
    """Another way of packaging it costs time and nothing else."""
    assert checksum.load("crc32c._elsewhere") is package.crc32c
    assert sys.modules["crc32c"] is package

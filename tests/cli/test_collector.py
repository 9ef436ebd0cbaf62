"""The collector looks at new objects only, and at all when old ones have become twice as many."""

import gc
import weakref

import pytest

from kwire.cli import collector
from kwire.cli.collector import OldObjects


@pytest.fixture
def old_objects(monkeypatch):
    """The callback, with small numbers; everything is as before after the test."""
    monkeypatch.setattr(collector, "COUNTED_EVERY", 1)
    gc.collect()
    gc.freeze()
    monkeypatch.setattr(collector, "LEAST_FROZEN", gc.get_freeze_count() + 1000)
    others, callback = gc.callbacks[:], OldObjects()
    gc.callbacks[:] = [callback]
    yield callback
    gc.callbacks[:] = others
    gc.unfreeze()


class Node:
    """An object that refers to itself through another."""

    def __init__(self):
        self.other = [self]


def test_what_outlives_a_collection_is_looked_at_no_more(old_objects):
    """The oldest generation is empty after its collection, however much is kept."""
    kept = [Node() for _ in range(100)]
    gc.collect()
    assert len(gc.get_objects(2)) < 100
    assert len(kept) == 100


def test_frozen_objects_are_freed_by_their_last_reference(old_objects):
    """Frozen means: not looked at. It doesn't mean: kept."""
    node = type("Plain", (), {})()
    gc.collect()
    gone = weakref.ref(node)
    del node
    assert gone() is None


def test_old_circles_are_freed_when_objects_have_become_many(old_objects):
    """A circle that was frozen while it was in use goes with the next look at everything."""
    node = Node()
    gc.collect()
    gone = weakref.ref(node)
    del node
    gc.collect()
    assert gone() is not None  # nobody looks
    kept = [[] for _ in range(5000)]
    gc.collect()  # they are more than the most
    gc.collect()  # looks at all
    assert gone() is None
    assert len(kept) == 5000


def test_a_look_at_everything_is_rare(old_objects):
    """After it, twice as many objects are needed for the next one."""
    kept = [[] for _ in range(5000)]
    gc.collect()
    gc.collect()
    node = Node()
    gc.collect()
    gone = weakref.ref(node)
    del node
    for _ in range(10):
        kept += [[] for _ in range(100)]
        gc.collect()
    assert gone() is not None

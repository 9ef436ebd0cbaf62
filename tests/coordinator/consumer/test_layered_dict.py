"""The dictionary of a large group: it is any dictionary, and its copies go their own ways."""

from random import Random

import pytest

from kwire.coordinator.consumer.layered_dict import CHANGES_ABOVE, LayeredDict


def test_it_does_what_a_dictionary_does() -> None:
    """Through copies of copies, with as many changes as make it merge its layers."""
    random = Random(1)
    found: list[tuple[LayeredDict[int, int], dict[int, int]]] = [(LayeredDict(), {})]
    for step in range(20 * CHANGES_ABOVE):
        layered, plain = random.choice(found)
        key = random.randrange(2 * CHANGES_ABOVE)
        if random.random() < 0.6:
            layered[key] = plain[key] = step
        else:
            assert layered.pop(key, None) == plain.pop(key, None)
        assert (len(layered), layered.get(key), key in layered) == (
            len(plain),
            plain.get(key),
            key in plain,
        )
        if random.random() < 0.01:
            found = [*found[-3:], (layered.copy(), dict(plain))]
    for layered, plain in found:
        assert (dict(layered.items()), set(layered), sorted(layered.values())) == (
            plain,
            set(plain),
            sorted(plain.values()),
        )


def test_what_is_not_there_is_refused() -> None:
    """Also what was removed above the layer that has it."""
    layered: LayeredDict[str, int] = LayeredDict()
    layered["a"] = 1
    layered.frozen()
    del layered["a"]
    for refused in (lambda: layered["a"], lambda: layered.__delitem__("a")):
        with pytest.raises(KeyError):
            refused()


def test_a_frozen_view_stays_as_it_is() -> None:
    """An assignment is computed from it in a thread, while the group goes on."""
    layered: LayeredDict[str, int] = LayeredDict()
    layered["a"] = 1
    frozen = layered.frozen()
    layered["a"], layered["b"] = 2, 3
    layered.copy()["c"] = 4
    assert frozen == {"a": 1}
    assert dict(layered) == {"a": 2, "b": 3}


def test_a_copy_costs_what_has_changed() -> None:
    """It shares the layer below, however large that is."""
    layered: LayeredDict[int, int] = LayeredDict()
    for number in range(10 * CHANGES_ABOVE):
        layered[number] = number
    copies = [layered.copy() for _ in range(3)]
    assert len({id(copy.frozen()) for copy in copies}) == 1

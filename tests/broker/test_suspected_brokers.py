"""Whom a broker suspects to be dead, and how long answers about leaders wait for that."""

import trio

from kwire.broker.failure_detector import PATIENCE_S, REMEMBERED_S, SuspectedBrokers
from kwire.metadata.image import BrokerImage, MetadataImage

LONG_AGO = -1.0


def _image(epoch: int = 5, *, is_fenced: bool = False) -> MetadataImage:
    return MetadataImage(brokers={2: BrokerImage(2, None, (), epoch=epoch, is_fenced=is_fenced)})


async def _pass_s(seconds: float) -> None:
    with trio.move_on_after(seconds):
        await trio.sleep_forever()


async def test_a_lost_connection_is_suspicious_for_a_moment(autojump_clock) -> None:
    """Further failures don't prolong it: a client's answer isn't late for ever."""
    suspects, began_s = SuspectedBrokers(), trio.current_time()
    assert suspects.wait_until_s(_image(), LONG_AGO) is None
    suspects.connection_lost(2, _image())
    assert suspects.wait_until_s(_image(), LONG_AGO) == began_s + PATIENCE_S
    await _pass_s(PATIENCE_S / 2)
    suspects.connection_lost(2, _image())
    assert suspects.wait_until_s(_image(), LONG_AGO) == began_s + PATIENCE_S
    await _pass_s(PATIENCE_S / 2)
    assert suspects.wait_until_s(_image(), LONG_AGO) is None


async def test_nobody_is_suspected_who_is_fenced_gone_or_new() -> None:
    """The image says who leads instead; a newer registration is another process."""
    suspects = SuspectedBrokers()
    suspects.connection_lost(2, _image())
    stops = BrokerImage(2, None, (), epoch=5, is_fenced=False, is_shutting_down=True)
    leaves = MetadataImage(brokers={2: stops})
    for settled in (_image(is_fenced=True), _image(epoch=6), MetadataImage(), leaves):
        assert suspects.wait_until_s(settled, LONG_AGO) is None
    suspects.connection_lost(2, _image(epoch=6))
    assert suspects.wait_until_s(_image(epoch=6), LONG_AGO) is not None
    suspects.connection_lost(2, MetadataImage())
    assert suspects.wait_until_s(_image(epoch=6), LONG_AGO) is None


async def test_who_answers_again_is_suspected_no_more() -> None:
    """And those who wait look again."""
    suspects, woken = SuspectedBrokers(), trio.Event()
    suspects.waiters.add(woken)
    suspects.has_answered(2)
    assert not woken.is_set()
    suspects.connection_lost(2, _image())
    suspects.has_answered(2)
    assert woken.is_set()
    assert suspects.wait_until_s(_image(), LONG_AGO) is None


async def test_a_death_may_be_noticed_a_moment_after_the_question() -> None:
    """A client's connection may end before this broker's."""
    soon_s = trio.current_time() + 1.0
    assert SuspectedBrokers().wait_until_s(_image(), soon_s) == soon_s


async def test_a_broker_that_was_fenced_is_remembered_for_a_while(autojump_clock) -> None:
    """librdkafka forgets partitions together with their old leader, until it asks again."""
    suspects = SuspectedBrokers()
    suspects.record_connected([2], _image())
    suspects.apply_image(_image())
    assert suspects.fenced_lately() == set()
    suspects.apply_image(_image(is_fenced=True))
    assert suspects.fenced_lately() == {2}
    await _pass_s(REMEMBERED_S / 2)
    suspects.record_connected([2], _image(is_fenced=True))  # a frozen process keeps its connections
    suspects.apply_image(_image(is_fenced=True))
    await _pass_s(REMEMBERED_S / 2)
    assert suspects.fenced_lately() == set()


async def test_nobody_is_remembered_who_was_never_met() -> None:
    """A cluster that starts at other addresses tells its clients of no old one."""
    suspects = SuspectedBrokers()
    suspects.record_connected([3], _image())
    suspects.apply_image(_image())
    suspects.apply_image(_image(is_fenced=True))
    assert suspects.fenced_lately() == set()

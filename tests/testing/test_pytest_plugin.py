"""The pytest plugin, in runs of pytest of its own."""

import os
import select
import sys
from pathlib import Path

import pytest

from kwire.testing.kafka import BrokerFailed, Kafka

pytest_plugins = ["pytester"]

RUN = ("-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def subprocesses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Runs find this kwire, and keep their data where the test can look."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    data = tmp_path / "brokers"
    data.mkdir()
    monkeypatch.setenv("KWIRE_TEST_DIR", str(data))


def left_over(tmp_path: Path) -> list[Path]:
    """What the brokers of a run have left on the disk."""
    return list((tmp_path / "brokers").iterdir())


FIXTURES = """
    import asyncio, pytest, trio

    def test_sync(kafka):
        kafka.topic("orders", partitions=3, records=["a"])
        assert len(kafka.records("orders")) == 1

    @pytest.mark.parametrize("name", ["kafka", "kafka_process", "kafka_session"])
    def test_each_is_empty(name, request):
        kafka = request.getfixturevalue(name)
        assert kafka.describe() == "no topics"
        kafka.topic("orders")

    @pytest.mark.trio
    async def test_trio(kafka):
        kafka.topic("orders", records=["a"])
        assert len(await kafka.wait_for_records_async("orders", 1)) == 1

    @pytest.mark.anyio
    @pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
    async def test_anyio(kafka_session, anyio_backend):
        kafka_session.topic("orders", records=["a"])
        assert len(await kafka_session.wait_for_records_async("orders", 1)) == 1

    def test_asyncio(kafka):
        async def main():
            kafka.topic("orders", records=["a"])
            return await kafka.wait_for_records_async("orders", 1)
        assert len(asyncio.run(main())) == 1
"""


def test_the_fixtures(pytester: pytest.Pytester, tmp_path: Path) -> None:
    """In synchronous tests, and in those of trio, asyncio and anyio; nothing is left."""
    pytester.makepyfile(FIXTURES)
    pytester.runpytest_subprocess(*RUN, "-Werror").assert_outcomes(passed=8)
    assert left_over(tmp_path) == []


def test_settings_by_marker(pytester: pytest.Pytester) -> None:
    """Those of the test win over those of its module; strict markers know ours."""
    pytester.makepyfile(
        """
        import pytest

        OFTEN = "log.retention.check.interval.ms"
        pytestmark = pytest.mark.kafka(settings={"num.partitions": 5, OFTEN: 1000})

        def test_of_the_module(kafka):
            assert kafka.settings == {"num.partitions": 5, OFTEN: 1000}

        @pytest.mark.kafka(settings={"num.partitions": 2})
        @pytest.mark.parametrize("name", ["kafka", "kafka_session"])
        def test_its_own(name, request):
            kafka = request.getfixturevalue(name)
            assert kafka.settings == {"num.partitions": 2, OFTEN: 1000}
            assert kafka._serving.server.broker.integer("num.partitions") == 2

        @pytest.mark.kafka(setting={"num.partitions": 2})
        def test_wrong(kafka):
            pass
        """
    )
    result = pytester.runpytest_inprocess(*RUN, "--strict-markers")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(['*the marker kafka takes settings={"name": value}*setting*'])


@pytest.mark.parametrize(
    "name", ["kafka", "kafka_session", "kafka_secured", "kafka_cluster", "kafka_process"]
)
def test_a_mistyped_setting_is_an_error(pytester: pytest.Pytester, name: str) -> None:
    """It names the setting and the one that was meant: the test would prove nothing."""
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.kafka(settings={{"num.partitionz": 2}})
        def test_wrong({name}):
            pass
        """
    )
    result = pytester.runpytest_inprocess(*RUN)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["there is no setting num.partitionz; did you mean num.partitions?"]
    )


def test_the_report_of_a_failure(pytester: pytest.Pytester) -> None:
    """It has the topics and the log of each broker of the test, and none of those that passed."""
    pytester.makepyfile(
        """
        from kwire.testing import Kafka

        def test_passes(kafka):
            kafka.topic("unseen")

        def test_fixture(kafka):
            kafka.topic("orders", partitions=2, records=["a"])
            assert not kafka.lag("billing", "orders")

        def test_block():
            with Kafka() as kafka:
                kafka.topic("payments")
                assert False
        """
    )
    result = pytester.runpytest_inprocess(*RUN)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*test_fixture*",
            "*- Kafka broker -*",
            "topics of 127.0.0.1:*:",
            "orders (2 partitions): 0: 0 to 1, 1: 0 to 0",
            "log:",
            "*test_block*",
            "*- Kafka broker -*",
            "payments (1 partition): 0: 0 to 0",
        ]
    )
    result.stdout.no_fnmatch_line("*unseen*")


def test_a_start_that_fails_is_an_error_that_says_why(pytester: pytest.Pytester) -> None:
    """One line, no traceback through the plugin."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka(settings={"num.partitions": 0})
        @pytest.mark.parametrize("name", ["kafka", "kafka_process", "kafka_session"])
        def test_fails(name, request):
            request.getfixturevalue(name)
        """
    )
    result = pytester.runpytest_inprocess(*RUN)
    assert result.ret == 1
    text = result.stdout.str()
    assert text.count("num.partitions") >= 3
    assert "pytest_plugin.py" not in text


def test_the_session_keeps_its_address(pytester: pytest.Pytester) -> None:
    """Each test finds it empty; an application may read the address once."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def application(kafka_bootstrap):
            return kafka_bootstrap

        @pytest.mark.parametrize("number", range(5))
        def test_alone(number, application, kafka_session):
            assert kafka_session.bootstrap == application
            assert kafka_session.describe() == "no topics"
            kafka_session.topic("orders", records=["a"])
        """
    )
    pytester.runpytest_inprocess(*RUN).assert_outcomes(passed=5)


def test_xdist(pytester: pytest.Pytester, tmp_path: Path) -> None:
    """Each worker has brokers of its own."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_alone(number, kafka, kafka_session):
            for broker in (kafka, kafka_session):
                assert broker.describe() == "no topics"
                broker.topic("orders", records=["a"])
        """
    )
    pytester.runpytest_subprocess(*RUN, "-n", "2").assert_outcomes(passed=6)
    assert left_over(tmp_path) == []


def test_unittest(pytester: pytest.Pytester) -> None:
    """Without the plugin and without pytest's fixtures."""
    pytester.makepyfile(
        """
        import unittest
        from kwire.testing import Kafka

        class OrdersTest(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                cls.kafka = cls.enterClassContext(Kafka())

            def setUp(self):
                self.kafka.reset()

            def test_a(self):
                self.kafka.topic("orders", records=["a"])

            def test_b(self):
                self.assertEqual(self.kafka.describe(), "no topics")
        """
    )
    pytester.runpytest_inprocess(*RUN, "-p", "no:kwire").assert_outcomes(passed=2)


def test_a_run_without_the_fixtures_loads_nothing(pytester: pytest.Pytester) -> None:
    """People who have kwire installed don't pay for it in their other tests."""
    pytester.makepyfile(
        """
        import sys

        def test_nothing():
            assert "kwire.testing.pytest_plugin" in sys.modules
            assert "kwire.server" not in sys.modules
            assert "kwire.testing.kafka" not in sys.modules
        """
    )
    pytester.runpytest_subprocess(*RUN).assert_outcomes(passed=1)


FROZEN = """
    import asyncio, datetime
    import pytest, time_machine
    from freezegun import freeze_time

    YEAR = datetime.datetime(2020, 1, 1)

    def check(kafka):
        assert datetime.datetime.now().year == 2020
        kafka.topic("orders", records=["a"])
        assert kafka.wait_for_records("orders", 1)[0].timestamp / 1000 > 1_700_000_000
        with pytest.raises(AssertionError, match="there is no group 'nope'"):
            kafka.wait_for_lag("nope", 0, timeout_s=0.1)
        with pytest.raises(AssertionError, match="waited 0.1 s"):
            asyncio.run(kafka.wait_for_records_async("orders", 2, timeout_s=0.1))
        faults = getattr(kafka, "faults", None)
        if faults is not None:
            kafka.restart()

    @freeze_time(YEAR)
    @pytest.mark.parametrize("name", ["kafka", "kafka_process", "kafka_session"])
    def test_freezegun(name, request):
        check(request.getfixturevalue(name))

    @time_machine.travel(YEAR, tick=False)
    @pytest.mark.parametrize("name", ["kafka", "kafka_process", "kafka_session"])
    def test_time_machine(name, request):
        check(request.getfixturevalue(name))
"""


def test_a_frozen_clock_freezes_no_broker_and_no_wait(pytester: pytest.Pytester) -> None:
    """Whoever freezes the code under test need not know that the broker is in the process."""
    pytester.makepyfile(FROZEN)
    pytester.runpytest_subprocess(*RUN, timeout=60).assert_outcomes(passed=6)


def test_a_wait_that_fails_shows_the_test_and_no_internals(pytester: pytest.Pytester) -> None:
    """What was waited for, and what there is instead."""
    pytester.makepyfile(
        """
        def test_waits(kafka):
            kafka.topic("orders", records=["a"])
            kafka.wait_for_lag("nope", 0, timeout_s=0.1)
        """
    )
    result = pytester.runpytest_subprocess(*RUN, timeout=60)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*waited 0.1 s for group 'nope' to have a lag of 0; last seen: there is no group 'nope'"]
    )
    result.stdout.no_fnmatch_line("*deadline_ms*")
    result.stdout.no_fnmatch_line("*_Lag(*")


def test_a_process_that_gevent_has_patched_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ``select`` has no epoll, and no event loop."""
    monkeypatch.delattr(select, "epoll")
    with pytest.raises(BrokerFailed, match=r"gevent has taken select\.epoll away"):
        Kafka().start()

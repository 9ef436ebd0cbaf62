"""``kwire consume --group``: which offsets are committed, and when."""

from typing import Any

from kwire.cli.group_reading import _Commits
from kwire.client.leaders import TopicPartition
from kwire.errors import ErrorCode, KafkaError

PARTITION = TopicPartition("orders", 0)


class _Reader:
    def __init__(self) -> None:
        self.done: dict[TopicPartition, int] = {}


class _Member:
    """A member whose first commit fails, as while the coordinator moves."""

    def __init__(self) -> None:
        self.fails = True
        self.asked: list[dict[TopicPartition, int]] = []

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        self.asked.append(offsets)
        if self.fails:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


async def test_an_offset_whose_commit_failed_is_committed_by_the_next_commit(
    capsys: Any,
) -> None:
    """Or the group would read its records again, although nothing is wrong any more."""
    member, reader = _Member(), _Reader()
    commits = _Commits(member, reader)  # type: ignore[arg-type]
    commits.begin({}, {PARTITION: 7})
    await commits.commit()
    assert "offsets were not committed" in capsys.readouterr().err
    member.fails = False
    await commits.commit()
    await commits.commit()
    assert member.asked == [{PARTITION: 7}, {PARTITION: 7}, {}]

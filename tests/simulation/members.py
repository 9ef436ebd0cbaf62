"""A member of a classic group: S22, whoever coordinates, its group goes on without a rebalance."""

from kwire.errors import ErrorCode, KafkaError
from tests.simulation.classic_members import ClassicMember
from tests.simulation.workloads import FAILURES
from tests.simulation.world import World

SESSION_MS = 300_000
REBALANCED = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
)


class Member(ClassicMember):
    """The only member of a group. Once it has its assignment, nobody takes that away."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name, group=name)
        self._is_stable = False

    async def step(self) -> None:
        """Join, or send a heartbeat."""
        try:
            if self._is_stable:
                await self._beat()
            else:
                await self.join(SESSION_MS, SESSION_MS)
                assigned = await self.sync({self.member_id: b"all"})
                assert assigned == b"all", f"{self.name} is assigned {assigned!r}"
                self._is_stable = True
            self.done += 1
        except FAILURES:
            pass

    async def _beat(self) -> None:
        code = ErrorCode(await self.heartbeat())
        assert code not in REBALANCED, f"{self.name} has to rebalance: {code.name}"
        if code:
            raise KafkaError(code)

    async def check(self) -> None:
        """It is still a member of the same generation."""
        assert self._is_stable
        await self._beat()

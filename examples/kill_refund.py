"""The refund agent, killed wherever it can be: a test that you can write of your own agent.

pip install "outlast[anthropic]" anyio pytest
pytest examples/kill_refund.py
"""

from pathlib import Path

import pytest

from examples.refund import Ledger, approving_of
from outlast import Agent, Session
from outlast.clock import ManualClock
from outlast.records.kinds import Policy
from outlast.testing.killing import Cut, KillEverywhere

pytest_plugins = ["outlast.testing.fixtures"]
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("policy", ["never", "verify"])
async def test_an_order_is_refunded_once(
    kill_everywhere: KillEverywhere, tmp_path: Path, policy: Policy
) -> None:
    """Wherever the worker dies there is one refund, or somebody is told that nobody knows."""
    ledgers: list[Ledger] = []

    def agent() -> Agent:
        """One for each time, with a ledger in which nothing stands."""
        ledgers.append(Ledger(tmp_path / f"ledger-{len(ledgers)}.db"))
        return approving_of(ledgers[-1], policy)

    async def approve(session: Session, clock: ManualClock) -> None:
        """A person, a week later, who may be asked more than once."""
        clock.turn(7 * 86_400)
        await session.decide(1, value="yes", by="ann", id="approval")

    def after(cut: Cut) -> None:
        """Look at the world outside."""
        refunds = ledgers[-1].count("81")
        assert refunds == 1 or (refunds == 0 and cut.in_doubt)

    cuts = await kill_everywhere(agent, "81 1250", meanwhile=approve, after=after)

    doubtful = [cut for cut in cuts if cut.in_doubt]
    assert bool(doubtful) == (policy == "never"), "only who never looks has to be told that nobody knows"
    assert all(cut.count("refund", cents=1250) <= 2 for cut in cuts)

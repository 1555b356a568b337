"""`outlast work` as an operator meets it: whom it serves, what it leaves, and how it ends; real processes."""

import signal
import time
from collections.abc import Generator

import pytest

from tests.acceptance.counter import TILL, Counter, opened, rings, says, script
from tests.acceptance.terminals import LIMIT_S

pytestmark = pytest.mark.crash
LEAVE_S = 3.0
"""For the ends of the processes on a machine that is busy, behind the hand-over."""


@pytest.fixture
def counter() -> Generator[Counter]:
    with opened() as counter:
        yield counter


def _begin(
    counter: Counter, session: str, *, agent: str = "scripted", prompt: str = "", tenant: str = ""
) -> None:
    counter.environ["OUTLAST_TENANT"] = tenant
    words = ["run", agent, prompt or script(says("hello")), "--session", session, "--detach"]
    counter.outlast(*words)
    counter.environ["OUTLAST_TENANT"] = ""


def _done(counter: Counter, tenant: str = "") -> dict[str, bool]:
    """The sessions of a tenant, and whether their turn has ended."""
    counter.environ["OUTLAST_TENANT"] = tenant
    found = {row["session"]: "turn 1 done" in row["status"] for row in counter.json("ls")}
    counter.environ["OUTLAST_TENANT"] = ""
    return found


def test_a_worker_serves_the_tenants_that_it_is_told(counter: Counter) -> None:
    for tenant in ("", "acme", "other"):
        _begin(counter, "s1", tenant=tenant)
    assert _done(counter, "nobody") == {}
    counter.outlast("work", "--tenant", "default,acme", "--until-idle")
    assert [_done(counter, tenant) for tenant in ("", "acme", "other")] == [
        {"s1": True},
        {"s1": True},
        {"s1": False},
    ]
    counter.outlast("work", "--all-tenants", "--until-idle")
    assert _done(counter, "other") == {"s1": True}


def test_a_worker_offers_no_more_agents_than_it_is_told_and_keeps_its_limits(counter: Counter) -> None:
    for session in ("s1", "s2"):
        _begin(counter, session)
    _begin(counter, "t1", agent=TILL)
    counter.outlast("work", TILL, "--agents", "till", "--until-idle", "--limit", "till=0")
    assert _done(counter) == {"s1": False, "s2": False, "t1": False}
    counter.outlast("work", TILL, "--agents", "till", "--until-idle", "--limit", "till=1")
    assert _done(counter) == {"s1": False, "s2": False, "t1": True}
    counter.outlast("work", "--until-idle", "--limit", "1", "--agents", "scripted")
    assert _done(counter) == {"s1": True, "s2": True, "t1": True}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--agents", "nobody"], "This worker has no agent nobody. There are: "),
        (["--limit", "nobody=3"], "This worker has no agent nobody. There are: "),
        (["--limit", "many"], "--limit many is neither AGENT=N nor N"),
        (["--limit", "=3"], "--limit =3 is neither AGENT=N nor N"),
        (["--tenant", "a", "--all-tenants"], "leave out --tenant"),
        (["--session", "s1", "--tenant", "a,b"], "a single --tenant NAME"),
    ],
    ids=" ".join,
)
def test_what_a_worker_cannot_serve_is_said_at_once(counter: Counter, words: list[str], said: str) -> None:
    assert said in counter.outlast("work", *words, status=2).stderr


def test_a_prompt_may_be_urgent_and_ls_says_so(counter: Counter) -> None:
    _begin(counter, "s1")
    _begin(counter, "s2")
    counter.outlast("send", "s2", "now", "--priority", "10")
    counter.outlast("send", "s2", "now", "--priority", "101", status=2)
    lines = {line.split()[0]: line for line in counter.outlast("ls").stdout.splitlines()}
    assert "priority 10" in lines["s2"]
    assert "priority" not in lines["s1"]


def test_a_worker_that_drains_takes_nothing_new_and_hands_over_in_its_time(counter: Counter) -> None:
    counter.environ["OUTLAST_DRAIN_S"] = "3"
    _begin(counter, "s1", agent=TILL, prompt=script(says("one"), rings(counter)))
    with counter.started("work", TILL) as work:
        counter.bell.rung()
        began = time.monotonic()
        work.terminate()
        assert work.stderr is not None
        assert "draining, 1 running" in work.stderr.readline()
        _begin(counter, "s2")
        assert work.wait(LIMIT_S) == 0
        assert time.monotonic() - began < 3.0 + LEAVE_S
    assert counter.json("show", "s2")[0]["open_turn"] is None, "nobody took it"
    attempts = counter.json("show", "s1")[0]["open_turn"]["attempts"]
    assert [attempt["ended"] for attempt in attempts] == ["handed_over"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_has_nothing_to_do_ends_at_once_in_good_order(
    counter: Counter, number: signal.Signals
) -> None:
    with counter.started("work", "--json") as work:
        assert work.stdout is not None
        assert work.stdout.readline().startswith('{"worker"')
        began = time.monotonic()
        work.send_signal(number)
        assert work.wait(LIMIT_S) == 0
        assert time.monotonic() - began < 5.0


def test_a_signal_to_end_counts_also_before_the_worker_is_ready(counter: Counter) -> None:
    _begin(counter, "s1", agent=TILL, prompt=script(rings(counter)))
    with counter.started("work", TILL) as work:
        work.terminate()
        assert work.wait(LIMIT_S) in {0, -signal.SIGTERM}
    assert counter.json("show", "s1")[0]["open_turn"] is None

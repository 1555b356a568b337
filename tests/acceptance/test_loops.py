"""Loops of one's own on the command line: real workers, real kills, and words of a person that count once."""

import os
import signal
import subprocess
from collections.abc import Generator

import pytest

from tests.acceptance.counter import Counter, opened, wait_until_gone
from tests.acceptance.terminals import LIMIT_S

pytestmark = pytest.mark.crash

PAYER, WAITER, ASKER = (f"tests.acceptance.office:{name}" for name in ("payer", "waiter", "asker"))
SHOP = '''
import asyncio, os, pathlib
from outlast import Agent, tool, ToolIO
from outlast.adapters.python import IO, Loop

@tool(replay="safe")
async def ring(io: ToolIO, bell: str) -> str:
    """Ring, and wait for what is answered."""
    reader, writer = await asyncio.open_unix_connection(bell)
    writer.write(f"{os.getpid()}\\n".encode())
    answer = (await reader.readline()).decode().strip()
    writer.close()
    return answer

@tool(replay="never")
async def charge(io: ToolIO) -> int:
    """Charge once."""
    with pathlib.Path("ledger").open("a") as lines:
        lines.write("charged\\n")
    return os.getpid()

async def support(io: IO, prompt: str):
    charged = await io.tool(charge)
    said = await io.tool(ring, bell=prompt)
    parcel = await io.wait_for("parcel", timeout_s=3600)
    return [charged, said, parcel, await io.tool(charge)]

support = Agent("support", Loop(support), tools=[ring, charge])
'''


@pytest.fixture
def counter() -> Generator[Counter]:
    with opened() as counter:
        yield counter


def effects(counter: Counter, name: str = "ledger") -> int:
    ledger = counter.shop / name
    return len(ledger.read_text().splitlines()) if ledger.exists() else 0


def killed_while_it_pays(counter: Counter) -> None:
    """A session `s1` whose worker was killed when the money was paid, and parked by the next."""
    prompt = f"{counter.shop / 'ledger'} {counter.bell.path}"
    counter.outlast("run", PAYER, prompt, "--session", "s1", "--detach")
    with counter.started("work", PAYER) as work:
        ring = counter.bell.rung()
        os.kill(ring.pid, signal.SIGKILL)
        work.wait(LIMIT_S)
    counter.outlast("work", PAYER, "--until-idle")
    assert counter.json("ls")[0]["status"].startswith("turn 1 decision")


def at_once(counter: Counter, *commands: tuple[str, ...]) -> "list[subprocess.CompletedProcess[str]]":
    """Several commands, none of which waits for another."""
    running = [
        subprocess.Popen(
            counter.argv(*words),
            env=counter.environ,
            cwd=counter.shop,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for words in commands
    ]
    told = [(process, *process.communicate(timeout=LIMIT_S)) for process in running]
    return [subprocess.CompletedProcess(one.args, one.returncode, out, err) for one, out, err in told]


def test_a_loop_in_a_directory_of_its_own_is_carried_on_by_another_worker(counter: Counter) -> None:
    (counter.shop / "support_desk.py").write_text(SHOP)
    agent = "support_desk:support"
    counter.outlast("run", agent, counter.bell.path, "--session", "s1", "--detach")
    with counter.started("work", agent) as work:
        first = counter.bell.rung()
        os.kill(first.pid, signal.SIGKILL)
        work.wait(LIMIT_S)
    with counter.started("work", agent) as work:
        second = counter.bell.rung()
        second.answer("hello")
        waiting = counter.started("follow", "s1")
        with waiting as follow:
            assert follow.stdout is not None
            assert any("no worker holds it meanwhile" in line for line in follow.stdout)
        assert counter.json("ls")[0]["worker"] is None
        work.terminate()
        assert work.wait(LIMIT_S) == 0
    counter.outlast("signal", "s1", "parcel", "--value", '"in Oslo"')
    counter.outlast("work", agent, "--until-idle")
    charged, said, parcel, again = counter.json("show", "s1")[0]["result"]
    assert (charged, said, parcel) == (first.pid, "hello", "in Oslo")
    assert again not in {first.pid, second.pid}
    assert effects(counter) == 2


def test_run_carries_a_loop_and_stays_while_it_waits_for_a_signal(counter: Counter) -> None:
    with counter.started("run", WAITER, "ci", "--session", "s1") as run:
        assert run.stdout is not None
        assert any("outlast signal s1 ci --value JSON" in line for line in run.stdout)
        counter.outlast("signal", "s1", "ci", "--value", "42")
        out, err = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, err
    assert "turn 1 done" in out


def test_run_leaves_a_question_to_the_person_and_says_how_to_answer(counter: Counter) -> None:
    out = counter.outlast("run", ASKER, "Shall I? (choose)", "--session", "s1", status=7).stdout
    assert "outlast decide s1 1 --answer no" in out.splitlines()[-2]
    last = counter.json("run", ASKER, "--session", "s1", status=7)[-1]
    assert (last["status"], last["awaits"][0]["choices"]) == ("waiting", ["yes", "no", "1"])
    counter.outlast("decide", "s1", "1", "--answer", "no")
    assert "turn 1 done" in counter.outlast("run", ASKER, "--session", "s1").stdout


def test_a_decision_that_is_given_twice_at_once_counts_once(counter: Counter) -> None:
    killed_while_it_pays(counter)
    assert effects(counter) == 1
    begun = ("decide", "s1", "1", "--run-again")
    given = at_once(counter, (*begun, "--by", "ann"), (*begun, "--by", "bob"))
    assert [one.returncode for one in given] == [0, 0], given
    assert given[0].stdout == given[1].stdout
    with counter.started("work", PAYER, "--until-idle") as work:
        ring = counter.bell.rung()
        assert "waits for no decision" in counter.outlast(*begun, status=5).stderr
        ring.answer("receipt 1")
        assert work.wait(LIMIT_S) == 0
    assert counter.json("show", "s1")[0]["result"] == "receipt 1"
    assert effects(counter) == 2
    assert [line["record"]["is"] for line in counter.json("log", "s1")].count("decided") == 1


def test_of_two_answers_at_once_one_counts_and_the_other_person_is_told(counter: Counter) -> None:
    counter.outlast("run", ASKER, "Shall I? (choose)", "--session", "s1", status=7)
    answers = ("yes", "no")
    given = at_once(counter, *[("decide", "s1", "1", "--answer", answer) for answer in answers])
    assert sorted(one.returncode for one in given) == [0, 5], given
    counter.outlast("work", ASKER, "--until-idle")
    taken = answers[[one.returncode for one in given].index(0)]
    assert counter.json("show", "s1")[0]["result"] == taken


def test_a_decision_that_it_was_done_runs_nothing_again(counter: Counter) -> None:
    killed_while_it_pays(counter)
    shown = counter.outlast("show", "s1").stdout
    assert "Call 1 is in doubt, it may have run: pay" in shown
    for way in ("--done RESULT", "--run-again", "--failed WHY"):
        assert f"  outlast decide s1 1 {way}\n" in shown
    for _ in range(2):
        counter.outlast("decide", "s1", "1", "--done", '{"receipt": 7}', "--by", "ann")
    followed = counter.outlast("run", PAYER, "--session", "s1").stdout
    assert "» pay      decided: done by ann" in followed
    assert counter.json("show", "s1")[0]["result"] == {"receipt": 7}
    assert effects(counter) == 1


def test_a_worker_that_dies_of_a_decision_leaves_the_call_in_doubt_again(counter: Counter) -> None:
    killed_while_it_pays(counter)
    counter.outlast("decide", "s1", "1", "--run-again")
    with counter.started("work", PAYER) as work:
        ring = counter.bell.rung()
        os.kill(ring.pid, signal.SIGKILL)
        work.wait(LIMIT_S)
        wait_until_gone(ring.pid)
    counter.outlast("work", PAYER, "--until-idle")
    assert counter.json("ls")[0]["status"].startswith("turn 1 decision")
    assert effects(counter) == 2
    counter.outlast("decide", "s1", "1", "--failed", "enough")
    counter.outlast("work", PAYER, "--until-idle")
    assert "pay ended as error: enough" in counter.outlast("show", "s1").stdout
    assert effects(counter) == 2

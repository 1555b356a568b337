"""The stand-in forge of the demo: real pushes, real tests, and a command that is as good as the real one for them."""

import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from outlast.cli.demo.pricing.bench import Bench, make_bench
from outlast.cli.demo.pricing.bill import Run, Watched, broken_promises
from outlast.cli.demo.pricing.forge import PullRequest, open_forge
from outlast.clock import SystemClock

pytestmark = [pytest.mark.crash, pytest.mark.anyio, pytest.mark.timeout(90)]
CREATE = "gh pr create --title 'A page' --body 'It is there.'"


@asynccontextmanager
async def bench_in(directory: Path) -> AsyncGenerator[tuple[Bench, list[PullRequest]]]:
    """A bench, and the pull requests of which the forge has told the end of their CI."""
    told: list[PullRequest] = []

    async def hear(one: PullRequest) -> None:
        told.append(one)

    async with open_forge(SystemClock(), ci_s=0.2) as forge:
        bench = make_bench("run", directory, forge, {})
        bench.repository.told = hear
        yield bench, told


async def shell(bench: Bench, command: str) -> "subprocess.CompletedProcess[str]":
    def run() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["bash", "-c", command],
            cwd=bench.shop,
            env=dict(bench.environ),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return await anyio.to_thread.run_sync(run, abandon_on_cancel=True)


async def on_a_branch(bench: Bench, name: str) -> None:
    done = await shell(
        bench,
        f"git checkout -qb {name} && date +%N >> CHANGES.md && git commit -qam {name} && git push -q origin HEAD",
    )
    assert done.returncode == 0, done.stderr


async def opened_unheard(bench: Bench) -> None:
    """The first pull request is opened, and whoever asked for it is killed."""
    process = await anyio.open_process(["bash", "-c", f"exec {CREATE}"], cwd=bench.shop, env=bench.environ)
    await bench.repository.landed.wait()
    process.kill()
    await process.wait()
    await process.aclose()


async def test_the_first_pull_request_lands_unheard_and_the_next_of_its_branch_is_refused(
    tmp_path: Path,
) -> None:
    async with bench_in(tmp_path / "run") as (bench, _):
        await on_a_branch(bench, "one")
        await opened_unheard(bench)
        again = await shell(bench, CREATE)
        assert again.returncode == 1
        assert "already exists" in again.stderr
        await on_a_branch(bench, "two")
        other = await shell(bench, CREATE)
        assert other.stdout.strip().endswith("/run/pull/2")
        assert [one.head for one in bench.repository.opened] == ["one", "two"]
        listed = await shell(bench, "gh pr list --head one --state all --limit 30 --json number,title,state")
        assert listed.stdout.strip() == '[{"number": 1, "title": "A page", "state": "OPEN"}]'


@pytest.mark.parametrize(
    ("breaks", "state", "status"), [("true", "pass", 0), ("echo broken > shop.py", "fail", 1)]
)
async def test_its_ci_runs_the_tests_of_what_was_pushed(
    breaks: str, state: str, status: int, tmp_path: Path
) -> None:
    async with bench_in(tmp_path / "run") as (bench, told):
        assert (await shell(bench, breaks)).returncode == 0
        await on_a_branch(bench, "one")
        await opened_unheard(bench)
        watched = await shell(bench, "gh pr checks --watch")
        assert (watched.stdout.split(), watched.returncode) == (["tests", state], status)
        assert [one.checks for one in told] == [state]


async def test_a_branch_that_was_not_pushed_cannot_be_asked_for(tmp_path: Path) -> None:
    async with bench_in(tmp_path / "run") as (bench, _):
        done = await shell(bench, f"{CREATE} --head nowhere")
        assert done.returncode == 1
        assert "was not pushed" in done.stderr
        assert not bench.repository.opened
        assert (await shell(bench, "gh issue list")).returncode == 2


def test_every_promise_that_does_not_hold_is_said() -> None:
    kept = Run("outlast", done=True, model_calls=8, pull_requests=1, checks="pass")
    seen = Watched(cuts=1, events=9, same=True)
    assert broken_promises(kept, seen) == []
    broken = Run("outlast", result="stuck", model_calls=9, pull_requests=2, checks="pending", human_actions=1)
    assert len(broken_promises(broken, Watched(twice=3))) == 8

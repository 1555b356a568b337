"""`outlast demo`, as anybody runs it: exit 0 only if every promise held, and the receipt as one object."""

import json
import os
import signal
import subprocess
from collections.abc import Generator
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from outlast.cli.demo.command import PLOTS
from outlast.cli.main import main
from tests.acceptance.counter import Counter, opened

pytestmark = pytest.mark.timeout(240)
MOMENTS = ["the model streams", "a never tool runs", "nothing runs, between two calls"]


@pytest.fixture
def counter() -> Generator[Counter]:
    with opened() as counter:
        yield counter


def kept(receipt: dict[str, Any]) -> None:
    """See for ourselves what `ok` says."""
    assert receipt["ok"], receipt["broken"]
    assert [kill["while_"] for kill in receipt["kills"]] == MOMENTS
    assert all(0 < kill["takeover_s"] <= kill["recovery_s"] for kill in receipt["kills"])
    assert [line["finished"] for line in receipt["model_calls"]] == [1] * len(receipt["model_calls"])
    assert sum(line["upstream"] for line in receipt["model_calls"]) <= len(receipt["model_calls"]) + 1
    charges = {line["name"]: line for line in receipt["tools"]}["charge_card"]
    assert (charges["policy"], charges["status"], charges["effects"]) == ("never", "in_doubt", 1)
    assert receipt["saved"]["calls"] > 0
    assert "charged exactly once" in receipt["result"]


@pytest.mark.crash
def test_a_loop_outlives_three_kills_and_waits_without_a_worker(counter: Counter) -> None:
    done = counter.outlast("demo", "--harness", "python", "--json", limit_s=200.0)
    (line,) = done.stdout.splitlines()
    receipt = json.loads(line)
    kept(receipt)
    assert (len(receipt["model_calls"]), len(receipt["tools"])) == (5, 3)
    (wait,) = receipt["waits"]
    assert (wait["signal"], wait["free"]) == ("parcel", wait["looks"])
    assert wait["looks"] >= 3
    for told in (*(f"while {moment}" for moment in MOMENTS), "waits for the signal parcel", "turn 1 done"):
        assert told in done.stderr
    assert list(counter.shop.iterdir()) == []


@pytest.mark.full
@pytest.mark.parametrize(
    "harness",
    [pytest.param(name, marks=pytest.mark.harness(harness=name)) for name in PLOTS if name != "python"],
)
def test_a_program_outlives_three_kills(counter: Counter, harness: str) -> None:
    # Installed programs stay where they are.
    counter.environ["OUTLAST_HARNESS_DIR"] = os.environ["OUTLAST_HARNESS_DIR"]
    receipt = json.loads(counter.outlast("demo", "--harness", harness, "--json", limit_s=200.0).stdout)
    kept(receipt)
    assert (len(receipt["model_calls"]), len(receipt["tools"]), receipt["waits"]) == (5, 4, [])


@pytest.mark.full
@pytest.mark.harness(harness="claude-code", turns=3)
def test_a_pull_request_is_opened_once_though_the_function_is_killed_when_it_is_open(
    counter: Counter,
) -> None:
    counter.environ["OUTLAST_HARNESS_DIR"] = os.environ["OUTLAST_HARNESS_DIR"]
    kept = str(counter.directory / "kept")
    with counter.started("demo", "--story", "pricing", "--page", "--json", "--keep", kept) as demo:
        assert demo.stdout is not None
        page = json.loads(demo.stdout.readline())
        bill = json.loads(demo.stdout.readline())
        shown = httpx.get(
            f"{page['url']}/v1/sessions/pricing-restart", headers={"authorization": f"Bearer {page['token']}"}
        )
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 0
    assert shown.json()["head"]["status"].startswith("turn 1 done")
    assert page["link"].startswith(f"{page['url']}/#/panes/pricing-restart,pricing-continue,pricing&token=")
    assert bill["ok"], bill["broken"]
    runs = {run["name"]: run for run in bill["runs"]}
    ours = runs["outlast"]
    assert (ours["pull_requests"], ours["human_actions"], ours["model_calls"], ours["checks"]) == (
        1,
        0,
        8,
        "pass",
    )
    assert bill["watched"]["cuts"] >= 1
    assert (bill["watched"]["twice"], bill["watched"]["same"]) == (0, True)
    assert bill["functions"] >= 2
    # What is measured of the others follows from what they did, not from what is said of them.
    asked = [json.loads(line) for line in (counter.directory / "kept/model.jsonl").read_text().splitlines()]
    names = {name: (name,) for name in ("restart", "outlast")} | {"continue": ("continue", "continued")}
    for name, run in runs.items():
        numbers = {one["n"] for one in asked if one.get("conversation") in names[name]}
        assert run["model_calls"] == len(numbers)
        branches = _branches(counter, name)
        assert run["pull_requests"] == len([one for one in branches if one.startswith("pricing-")])
        assert run["done"], run
    assert runs["restart"]["pull_requests"] > 1
    assert runs["restart"]["cost_usd"] > runs["continue"]["cost_usd"] > ours["cost_usd"]


def _branches(counter: Counter, run: str) -> list[str]:
    """Of the bare repository of a run."""
    asked = [
        "git",
        "-C",
        str(counter.directory / "kept" / run / "origin.git"),
        "branch",
        "--format=%(refname:short)",
    ]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.crash
@pytest.mark.full
def test_the_demo_plays_in_a_world_that_is_there_and_leaves_its_sessions_alone(counter: Counter) -> None:
    counter.outlast("run", "scripted", "[]", "--session", "mine", "--detach")
    world = counter.environ["OUTLAST_WORLD"]
    text = counter.outlast("demo", "--harness", "python", "--world", world, limit_s=200.0).stdout
    assert text.rstrip().endswith("every promise held")
    assert [(head["session"], head["waiting_inputs"]) for head in counter.json("ls")] == [("mine", 1)]


@pytest.mark.crash
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--story", "pricing"), "is played by Claude Code"),
        (("--world", "postgres"), "brings no World 'postgres' along"),
        (("--world", "nowhere:x"), "The scheme 'nowhere' is not known"),
        (("--world", "memory:"), "one process only"),
        (("--harness", "nobody"), "'claude-code', 'codex'"),
    ],
)
def test_a_demo_that_cannot_be_played_is_told(words: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(main, ["demo", "--harness", "python", *words])
    assert result.exit_code == 2
    assert said in result.stderr

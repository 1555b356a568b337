"""Real harnesses in real sandboxes that share no directory with the worker: files, HOME and results travel."""

import sys
from pathlib import Path

import pytest

from outlast.records import CallOutcome, FilesKept
from outlast.testing.adapter_contract import staged
from outlast.testing.adapter_contract.stage import prompt, says, seen
from outlast.testing.models import Step
from outlast.workspaces.sandbox import sandbox
from tests.acceptance.test_sandboxes import PROBE, SUBJECTS, TEXT, texts
from tests.sandboxes.bare import bring


def harness(name: str) -> object:
    mark = pytest.mark.harness(harness=name, turns=2)
    return pytest.param(name, marks=mark if name == "codex" else [mark, pytest.mark.full])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(bring(tmp_path)), *sys.path])
    return tmp_path


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", [harness(name) for name in SUBJECTS])
async def test_afar(name: str, place: Path) -> None:
    subject = SUBJECTS[name]
    path = "/workspace/hello.py" if name == "claude-code" else "hello.py"
    edit, command = subject.write(path, TEXT), subject.shell(PROBE)
    assert edit is not None
    assert command is not None
    script = {
        "go": [
            Step(text="I write.", tools=(edit,)),
            Step(text="I try.", tools=(command,)),
            *says("It works."),
        ],
        "next": [*says("And on.")],
    }
    async with staged(subject, place, script) as stage:
        stage.workspace = sandbox("bare", idle_s=0)
        outcome = await stage.finish(await stage.send(prompt("go")))
        assert str(outcome) == "It works.", outcome
        assert (await texts(stage))["hello.py"] == TEXT.encode()
        assert "tests pass" in stage.last_body().decode()
        kept = [one for one in await stage.of_kind(FilesKept) if one.why == "call"]
        assert len(kept) == 2
        assert {one.call for one in kept} <= {one.call for one in await stage.of_kind(CallOutcome)}
        assert str(await stage.finish(await stage.send(prompt("next")))) == "And on."
        told = stage.last_body().decode()
        assert "tests pass" in told, "its next box has the conversation"


@pytest.mark.full
@pytest.mark.timeout(180)
@pytest.mark.harness(harness="claude-code", turns=2)
async def test_cut(place: Path) -> None:
    """A turn whose worker is killed in its command; the box lives on, and the next attempt goes on in it."""
    subject = SUBJECTS["claude-code"]
    edit = subject.write("/workspace/hello.py", TEXT)
    command, look = subject.shell("echo once >> log; sleep 30"), subject.shell("cat hello.py log; pwd")
    assert edit is not None
    assert command is not None
    assert look is not None
    script = {
        "go": [Step(text="I write.", tools=(edit,)), Step(text="I try.", tools=(command,)), *says("Cut.")],
        "next": [Step(text="I look.", tools=(look,)), *says("All is there.")],
    }
    async with staged(subject, place, script) as stage:
        stage.workspace = sandbox("bare", idle_s=60)
        turn = await stage.send(prompt("go"))
        victim = await stage.victim(session="s")
        await seen(turn, lambda event: event.kind == "call.started" and event.call == 4)
        victim.kill()
        await victim.death()
        assert str(await stage.finish(turn)) == "Cut."
        assert (await texts(stage))["hello.py"] == TEXT.encode()
        assert str(await stage.finish(await stage.send(prompt("next")))) == "All is there."
        told = stage.last_body().decode()
        assert "return 7" in told
        assert "once" in told, "the box is the one that it was begun in"

"""Killed inside `git push` and `gh pr create`: what landed is found out, the model is told, the forge sees it once."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
import pytest

from outlast.records import CallOutcome, Verdict
from outlast.testing.adapter_contract import Stage, Subject, staged
from outlast.testing.adapter_contract.stage import LIMIT_S, prompt, says
from outlast.testing.models import Step, ToolUse
from outlast.workspaces.egress import Credential, from_env
from outlast.workspaces.sandbox import sandbox
from tests.egress.forge import Cut, Forge, open_forge
from tests.harnesses import claude_code, codex
from tests.servers.github_api import URL, GitHub, open_github

pytestmark = pytest.mark.timeout(180)

SECRET = "gLpat-5up3rs3cret-0f-the-f0rge"
HERE = "127.0.0.2"
"""This machine by another address: what programs inside take 127.0.0.1 for is the sandbox itself."""
SUBJECTS = {"claude-code": claude_code.SUBJECT, "codex": codex.SUBJECT}
BEGIN = (
    "git config --global user.name agent; git config --global user.email agent@example.org; "
    "git clone --quiet {url} . ; echo '<h1>Prices</h1>' > pricing.html"
)
COMMIT = "git add -A && git commit -qm 'Add a pricing page'"
Where = Literal["sandbox", "local"]


def harness(name: str, *case: str, full: bool = False) -> object:
    marks = [pytest.mark.harness(harness=name), *([pytest.mark.full] if full else [])]
    return pytest.param(name, *case, marks=marks)


def tool(subject: Subject, command: str) -> ToolUse:
    found = subject.shell(command)
    assert found is not None
    return found


def script(subject: Subject, *commands: str) -> Sequence[Step]:
    return [*(Step(text="I go on.", tools=(tool(subject, one),)) for one in commands), *says("It is out.")]


def url_of(forge: Forge, where: Where) -> str:
    """In a sandbox nothing inside knows the secret; at home the user's own git does."""
    me = f"git:{SECRET}@" if where == "local" else ""
    return f"http://{me}{HERE}:{forge.port}/site.git"


def settle(stage: Stage, forge: Forge, where: Where) -> None:
    if where != "local":
        way = Credential(
            f"http://{HERE}:{forge.port}/site.git",
            from_env("FORGE_TOKEN"),
            kind="basic",
            user="git",
            name="forge",
        )
        stage.workspace = sandbox(idle_s=0, credentials=[way])


async def cut_off(stage: Stage, forge: Forge | GitHub) -> None:
    """A worker advances the session until what it does at the forge is held up, and is killed."""
    victim = await stage.victim(session="s")
    with anyio.fail_after(LIMIT_S):
        await anyio.to_thread.run_sync(forge.held.wait, abandon_on_cancel=True)
    victim.kill()
    await victim.death()


@pytest.mark.parametrize(
    ("name", "where", "cut"),
    [
        harness("claude-code", "sandbox", "after it landed", full=True),
        harness("codex", "sandbox", "after it landed"),
        harness("claude-code", "local", "before it lands", full=True),
        harness("claude-code", "sandbox", "before it lands", full=True),
        harness("claude-code", "local", "after it landed", full=True),
        harness("codex", "sandbox", "before it lands", full=True),
        harness("codex", "local", "before it lands", full=True),
        harness("codex", "local", "after it landed", full=True),
    ],
)
async def test_push(
    name: str, where: Where, cut: Cut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", SECRET)
    subject = SUBJECTS[name]
    (tmp_path / "forge").mkdir()
    with open_forge(tmp_path / "forge", SECRET, address=HERE) as forge:
        forge.make("site.git")
        forge.cuts = cut
        commands = [
            BEGIN.format(url=url_of(forge, where)),
            COMMIT,
            "git push origin HEAD:main 2>&1 | tail -3",
        ]
        async with staged(subject, tmp_path, {"go": script(subject, *commands)}) as stage:
            settle(stage, forge, where)
            turn = await stage.send(prompt("go"))
            await cut_off(stage, forge)
            assert len(forge.pushes("site.git")) == (1 if cut == "after it landed" else 0)
            assert str(await stage.finish(turn)) == "It is out."
            (pushed,) = forge.pushes("site.git")
            old, new, ref = pushed.split()
            assert (set(old), ref) == ({"0"}, "refs/heads/main")
            (verdict,) = await stage.of_kind(Verdict)
            outcomes = {one.call: one for one in await stage.of_kind(CallOutcome)}
            assert outcomes[verdict.call].status == "ok"
            assert verdict.verdict == ("done" if cut == "after it landed" else "not_done")
            told = f"main of origin is at {new[:10]}" in stage.last_body().decode()
            assert told is (verdict.verdict == "done")


@pytest.mark.full
@pytest.mark.harness(harness="claude-code")
async def test_push_from_where_the_shell_has_gone(tmp_path: Path) -> None:
    """The shell of Claude Code stays where a command has led it."""
    subject = SUBJECTS["claude-code"]
    (tmp_path / "forge").mkdir()
    with open_forge(tmp_path / "forge", SECRET, address=HERE) as forge:
        forge.make("site.git")
        forge.cuts = "after it landed"
        begin = f"mkdir site; cd site; {BEGIN.format(url=url_of(forge, 'local'))}"
        commands = [begin, f"{COMMIT} && git push origin HEAD 2>&1"]
        async with staged(subject, tmp_path, {"go": script(subject, *commands)}) as stage:
            turn = await stage.send(prompt("go"))
            await cut_off(stage, forge)
            assert str(await stage.finish(turn)) == "It is out."
            (pushed,) = forge.pushes("site.git")
            (verdict,) = await stage.of_kind(Verdict)
            assert verdict.verdict == "done"
            told = stage.last_body().decode()
            assert "Add a pricing page" in told
            assert f"main of origin is at {pushed.split()[1][:10]}" in told


BODY = "$(cat <<'EOF'\n## Why\n\nIt's \"time\".\nEOF\n)"
OPEN = f'gh pr create --head prices --title "Add a pricing page" --body "{BODY}"'
BRANCH = "git checkout -b prices && git commit --allow-empty -m 'Add a pricing page'"


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        harness("claude-code", "after it landed", full=True),
        harness("claude-code", "before it lands", full=True),
        harness("codex", "after it landed", full=True),
        harness("codex", "before it lands", full=True),
    ],
)
async def test_open(name: str, cut: Cut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed inside the real `gh pr create`, behind a branch and a commit of the same line."""
    program = shutil.which("gh", path=str(Path(sys.executable).parent))
    assert program is not None, "gh is missing: make setup"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gh").symlink_to(program)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    subject = SUBJECTS[name]
    with open_github(tmp_path / "hub", tmp_path / "user") as hub:
        # Codex begins a login shell, which has its own idea of where programs are.
        (tmp_path / "user/.profile").write_text(f"export PATH={tmp_path / 'bin'}:$PATH\n")
        hub.cuts = cut
        begin = (
            "git init -q -b main; git config user.name agent; git config user.email agent@example.org; "
            f"git remote add origin {URL}.git; git commit -q --allow-empty -m one"
        )
        async with staged(subject, tmp_path, {"go": script(subject, begin, f"{BRANCH} && {OPEN}")}) as stage:
            turn = await stage.send(prompt("go"))
            await cut_off(stage, hub)
            assert str(await stage.finish(turn)) == "It is out."
            told, (verdict,) = stage.last_body().decode(), await stage.of_kind(Verdict)
        if cut == "after it landed":
            (opened,) = hub.opened
            assert (opened["headRefName"], opened["title"]) == ("prices", "Add a pricing page")
            assert opened["body"] == '## Why\n\nIt\'s "time".'
            assert verdict.verdict == "done"
            assert f"it is #1, 'Add a pricing page', {URL}/pull/1" in told
        else:
            assert not hub.opened
            assert verdict.verdict == "unsure"
            assert "HEAD is on prices" in told
            assert "What is left to be done: `gh pr create --head prices" in told


@pytest.mark.full
@pytest.mark.harness(harness="claude-code")
async def test_push_of_a_commit_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox is made anew as it was before the line, whose commit has landed: the model gets it back."""
    monkeypatch.setenv("FORGE_TOKEN", SECRET)
    subject = SUBJECTS["claude-code"]
    (tmp_path / "forge").mkdir()
    with open_forge(tmp_path / "forge", SECRET, address=HERE) as forge:
        forge.make("site.git")
        forge.cuts = "after it landed"
        back = "git fetch origin main && git reset FETCH_HEAD"
        commands = [
            BEGIN.format(url=url_of(forge, "sandbox")),
            f"{COMMIT} && git push origin HEAD:main 2>&1",
            f"{back}; git status --short; git log --format='It is %H.' -1; git push origin HEAD:main 2>&1",
        ]
        async with staged(subject, tmp_path, {"go": script(subject, *commands)}) as stage:
            settle(stage, forge, "sandbox")
            turn = await stage.send(prompt("go"))
            await cut_off(stage, forge)
            assert str(await stage.finish(turn)) == "It is out."
            (verdict,) = await stage.of_kind(Verdict)
            told = stage.last_body().decode()
        (pushed,) = forge.pushes("site.git")
        assert verdict.verdict == "done"
        assert f"What is left to be done: `{back}`" in told
        assert f"It is {pushed.split()[1]}." in told
        assert "Everything up-to-date" in told


@pytest.mark.full
@pytest.mark.harness(harness="codex")
async def test_push_from_where_a_call_says(tmp_path: Path) -> None:
    """The hook of Codex does not tell where a command is to run; the model's own words do."""
    subject = SUBJECTS["codex"]
    (tmp_path / "forge").mkdir()
    with open_forge(tmp_path / "forge", SECRET, address=HERE) as forge:
        forge.make("site.git")
        forge.cuts = "after it landed"
        begin = f"git init -q .; mkdir site; cd site; {BEGIN.format(url=url_of(forge, 'local'))}"
        push = ToolUse(
            name="exec_command", input={"cmd": f"{COMMIT} && git push origin HEAD:main", "workdir": "site"}
        )
        steps = [Step(text="I go on.", tools=(tool(subject, begin),)), Step(text="I push.", tools=(push,))]
        async with staged(subject, tmp_path, {"go": [*steps, *says("It is out.")]}) as stage:
            turn = await stage.send(prompt("go"))
            await cut_off(stage, forge)
            assert str(await stage.finish(turn)) == "It is out."
            (verdict,) = await stage.of_kind(Verdict)
            told = stage.last_body().decode()
        (pushed,) = forge.pushes("site.git")
        assert verdict.verdict == "done", verdict
        assert f"main of origin is at {pushed.split()[1][:10]}" in told

"""Real repositories and real commands that were cut off: what they did is found out, and never guessed."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from outlast.adapters.shell_inquiry import inquiry_of
from outlast.inquiry import Answer, Partly, Scene
from outlast.tool import Done, NotDone, Unsure
from outlast.workspace import Ran

pytestmark = [pytest.mark.crash, pytest.mark.timeout(60), pytest.mark.anyio]

MESSAGE = "$(cat <<'EOF'\nAdd \"prices\"\n\nThey're ${new}.\nEOF\n)"


@dataclass
class Here:
    """A directory of this machine as a scene, with a git of its own."""

    root: Path
    env: Mapping[str, str]
    machine: str = ""
    """Instead of the one that it is on."""
    looked: list[str] = field(default_factory=list[str])

    @property
    def cwd(self) -> str:
        return str(self.root)

    @property
    def lasts(self) -> bool:
        return False

    async def read(self, path: str) -> bytes | None:
        raise AssertionError(path)

    async def run(self, text: str, *, cwd: str = "", timeout_s: float = 10.0) -> Ran:
        self.looked.append(text)
        ran = self.shell(text, cwd=cwd)
        said = ran.stdout
        if self.machine:
            said = "\n".join(
                f"machine\t{self.machine}" if line.startswith("machine\t") else line
                for line in said.split("\n")
            )
        return Ran(ran.returncode, said, ran.stderr)

    def shell(self, text: str, *, cwd: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["/bin/bash", "-c", text],
            cwd=self.root / cwd,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )

    def git(self, text: str) -> str:
        ran = self.shell(f"git {text}")
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()


def is_scene(here: Here) -> Scene:
    return here


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """A clone with a commit that its origin has, and one more that it has not."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    made = Here(tmp_path, env)
    made.git("init -q --bare -b main origin.git")
    made.git("clone -q origin.git shop")
    here = Here(tmp_path / "shop", env)
    (here.root / "a").write_text("1\n")
    here.git("add a && git commit -qm one && git push -q origin main")
    (here.root / "a").write_text("2\n")
    return here


async def cut_off(here: Here, command: str, *ran: str, machine: str = "") -> Answer:
    """What is said of `command` where only `ran` came of it."""
    inquiry = inquiry_of(command)
    assert inquiry is not None, command
    witness = await inquiry.note(is_scene(here))
    assert witness is not None
    for one in ran:
        done = here.shell(one)
        assert done.returncode == 0, done.stderr
    here.machine = machine
    return await inquiry.ask(is_scene(here), witness)


def words(answer: Answer) -> str:
    match answer:
        case Done(result=text):
            return str(text)
        case Partly(said=text) | Unsure(note=text):
            return text
        case NotDone():
            return ""


COMMIT = f'git add -A && git commit -m "{MESSAGE}"'
BOTH = f"{COMMIT} && git push 2>&1 | tail -3"


@pytest.mark.parametrize("command", [COMMIT, "git commit -qam 'two'", f"cd . && {COMMIT}; git status", BOTH])
async def test_what_did_not_begin_is_run(here: Here, command: str) -> None:
    assert await cut_off(here, command) == NotDone()
    assert await cut_off(here, command, "git add -A") == NotDone()


async def test_a_commit_that_landed_is_told_and_not_made_again(here: Here) -> None:
    answer = await cut_off(here, COMMIT, COMMIT)
    assert isinstance(answer, Done)
    assert here.git("rev-parse HEAD")[:10] in words(answer)
    assert "'Add \"prices\"'" in words(answer)


async def test_a_commit_is_known_by_its_message(here: Here) -> None:
    answer = await cut_off(here, "git commit -am two", "git commit -qam three")
    assert isinstance(answer, Unsure)
    assert "another message" in words(answer)


async def test_the_first_commit_of_a_repository(here: Here) -> None:
    here.git("checkout -q --orphan new")
    assert await cut_off(here, "git commit -am two") == NotDone()
    assert isinstance(await cut_off(here, "git commit -am two", "git commit -qam two"), Done)


async def test_a_head_that_is_somewhere_else_is_said(here: Here) -> None:
    answer = await cut_off(
        here, "git commit -am two", "git commit -qam two && git commit -q --allow-empty -m more"
    )
    assert isinstance(answer, Unsure)
    assert here.git("rev-parse HEAD")[:10] in words(answer)


async def test_one_commit_of_two(here: Here) -> None:
    answer = await cut_off(
        here, "git commit -am two && git commit --allow-empty -m three", "git commit -qam two"
    )
    assert isinstance(answer, Partly)
    assert "`git commit --allow-empty -m three`" in words(answer).splitlines()[-1]


async def test_an_amended_commit(here: Here) -> None:
    amend = "git commit -a --amend --no-edit"
    assert await cut_off(here, amend) == NotDone()
    assert isinstance(await cut_off(here, amend, f"{amend} -q"), Done)
    assert isinstance(await cut_off(here, amend, "git commit -q --allow-empty -m more"), Unsure)


async def test_a_push_that_landed_is_told_and_not_made_again(here: Here) -> None:
    here.git("commit -qam two")
    for command in (
        "git push",
        "git push origin main",
        "git push origin HEAD",
        "git push -u origin main:main",
    ):
        answer = await cut_off(here, command, "git push -q")
        assert isinstance(answer, Done), command
        assert f"main of origin is at {here.git('rev-parse HEAD')[:10]}" in words(answer)


async def test_a_push_that_did_not_land_is_made(here: Here) -> None:
    here.git("commit -qam two")
    for command in ("git push", "git push origin main", "git push -f", "git push -u origin HEAD:other"):
        assert await cut_off(here, command) == NotDone(), command


async def test_a_push_by_force_over_what_nobody_has_seen_is_in_doubt(here: Here) -> None:
    here.git("commit -qam two")
    here.shell("cd .. && git clone -q origin.git other && cd other && git commit -q --allow-empty -m x")
    answer = await cut_off(here, "git push --force", "git -C ../other push -q")
    assert isinstance(answer, Unsure)
    assert "neither what was pushed nor what was seen there before" in words(answer)
    # One without force is refused, whatever is there.
    assert await cut_off(here, "git push") == NotDone()


async def test_a_push_below_what_somebody_else_has_pushed_since(here: Here) -> None:
    here.git("commit -qam two")
    theirs = "cd .. && git clone -q origin.git other && cd other && git commit -q --allow-empty -m x && git push -q"
    answer = await cut_off(
        here, "git push", "git push -q && git update-ref refs/remotes/origin/main HEAD~", theirs
    )
    assert isinstance(answer, Done)
    assert f"{here.git('rev-parse HEAD')[:10]} is in main of origin" in words(answer)
    # What does not have it was moved before, or without it: a push that is made again is refused.
    here.git("commit -q --amend -m other")
    assert await cut_off(here, "git push") == NotDone()


async def test_a_remote_that_does_not_answer_is_in_doubt(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.adapters.shell_inquiry.PAUSES_S", (0.0,))
    here.git("commit -qam two")
    here.git("config --unset remote.origin.fetch")
    answer = await cut_off(here, "git push origin main", "mv ../origin.git ../gone.git")
    assert isinstance(answer, Unsure)
    assert "origin could not be asked" in words(answer)


async def test_a_commit_that_landed_before_a_push_that_did_not(here: Here) -> None:
    answer = await cut_off(here, f"{COMMIT} && git push", COMMIT)
    assert isinstance(answer, Partly)
    lines = words(answer).splitlines()
    assert here.git("rev-parse HEAD")[:10] in lines[1]
    assert f"main of origin is at {here.git('rev-parse origin/main')[:10]}" in lines[2]
    assert lines[-1] == "What is left to be done: `git push`"


async def test_all_of_it_landed(here: Here) -> None:
    assert isinstance(await cut_off(here, BOTH, COMMIT, "git push -q"), Done)


async def test_a_new_branch_with_its_commit_and_its_push(here: Here) -> None:
    command = "git checkout -b prices && git commit -am two && git push -u origin prices"
    assert await cut_off(here, command) == NotDone()
    branched = "git checkout -qb prices"
    partly = await cut_off(here, command, branched)
    assert isinstance(partly, Partly)
    assert words(partly).splitlines()[-1] == (
        "What is left to be done: `git commit -am two && git push -u origin prices`"
    )
    here.git("checkout -q main && git branch -q -d prices")
    done = await cut_off(here, command, branched, "git commit -qam two && git push -q origin prices")
    assert isinstance(done, Done)
    assert "only the upstream of the branch is not set" in words(done)
    left = words(done).splitlines()[-1].split("`")[1]
    assert here.shell(left).returncode == 0
    assert here.git("rev-parse --abbrev-ref @{u}") == "origin/prices"


@pytest.mark.parametrize(
    "command", [BOTH, f"git checkout -b prices && {COMMIT} && git push -u origin prices"]
)
async def test_files_that_were_brought_back_while_the_push_stands(here: Here, command: str) -> None:
    """As in a sandbox that was made anew: nothing here shows that the commit was ever made."""
    assert await cut_off(here, command, machine="another") == NotDone()
    here.machine = ""
    back = "git reset -q --mixed HEAD~ && git checkout -q main && git branch -q -D prices; git update-ref "
    back += (
        "refs/remotes/origin/main main; git update-ref -d refs/remotes/origin/prices; git reflog expire --all"
    )
    back += " --expire=now; git gc -q --prune=now; git config --remove-section branch.prices; true"
    answer = await cut_off(here, command, command, back, machine="another")
    assert isinstance(answer, Done), answer
    assert "not here any more" in words(answer)
    left = words(answer).splitlines()[-1].split("`")[1::2]
    for one in left:
        assert here.shell(one).returncode == 0, one
    name = here.git("rev-parse --abbrev-ref HEAD")
    assert here.git("rev-parse HEAD") == here.git(f"-C ../origin.git rev-parse {name}")
    assert here.git("status --porcelain") == ""


async def test_a_lock_that_was_left_is_told_and_nobody_is_sent_into_it(here: Here) -> None:
    answer = await cut_off(here, COMMIT, "touch .git/index.lock")
    assert isinstance(answer, Partly)
    assert str(here.root / ".git/index.lock") in words(answer)


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=[pytest.mark.full] if part % 4 else []) for part in range(24)]
)
async def test_whenever_it_is_killed_what_is_told_leads_to_one_commit_and_one_push(
    here: Here, part: int
) -> None:
    line = "git checkout -qb prices && git add -A && git commit -qm two && git push -qu origin prices"
    hook = here.root / ".git/hooks/pre-push"
    hook.write_text("#!/bin/sh\nsleep 0.02\n")
    hook.chmod(0o755)
    # The other end is another machine's: it does not die with the line, and ends what it has begun.
    here.git("config remote.origin.receivepack 'setsid -w git-receive-pack'")
    inquiry = inquiry_of(line)
    assert inquiry is not None
    witness = await inquiry.note(is_scene(here))
    assert witness is not None
    begun = subprocess.Popen(["/bin/bash", "-c", line], cwd=here.root, env=here.env, start_new_session=True)  # noqa: ASYNC220 - it is killed at once
    await anyio.sleep(0.002 + part * 0.005)
    os.killpg(begun.pid, signal.SIGKILL)
    begun.wait()
    await nobody_runs(here)
    answer = await inquiry.ask(is_scene(here), witness)
    assert not isinstance(answer, Unsure), answer
    follow(here, line, answer)
    assert here.git("log --format=%s") == "two\none"
    head = here.git("rev-parse HEAD")
    assert here.git("-C ../origin.git rev-parse prices") == head
    assert here.git("rev-parse --abbrev-ref HEAD @{u}") == "prices\norigin/prices"
    assert here.git("status --porcelain") == ""


def follow(here: Here, line: str, answer: Answer) -> None:
    """Do what a model would that believes every word."""
    told = words(answer)
    for lock in re.findall(r"left (.*) behind", told):
        for path in lock.split(" and "):
            Path(path).unlink()
    left = re.findall(r"`([^`]*)`", told.rpartition("What is left to be done: ")[2])
    for command in [line] if isinstance(answer, NotDone) else left if "What is left" in told else []:
        ran = here.shell(command)
        assert ran.returncode == 0, (told, ran.stderr)


async def nobody_runs(here: Here) -> None:
    """What git had begun at the other end is over: it is no child of the line."""
    with anyio.fail_after(10):
        while any(str(here.root.parent) in command for command in commands()):  # noqa: ASYNC110 - processes tell nobody
            await anyio.sleep(0.01)


def commands() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "receive-pack" in command:
            yield command


async def test_what_was_noted_of_another_line_says_nothing(here: Here) -> None:
    noted, other = inquiry_of("git push"), inquiry_of("git push", "sub")
    assert noted is not None
    assert other is not None
    witness = await noted.note(is_scene(here))
    assert witness is not None
    assert isinstance(await other.ask(is_scene(here), witness), Unsure)
    assert isinstance(await noted.ask(is_scene(here), {**witness, "kind": "else"}), Unsure)


async def test_where_there_is_no_repository_nothing_is_noted(here: Here) -> None:
    inquiry = inquiry_of("cd .. && git commit -m x")
    assert inquiry is not None
    assert await inquiry.note(is_scene(here)) is None


async def test_names_are_no_commands(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in a command is looked for, and never run."""
    monkeypatch.setattr("outlast.adapters.shell_inquiry.PAUSES_S", ())
    evil = "x'; touch hit; '"
    (here.root / evil).mkdir()
    for command in (
        f'cd "{evil}" && git commit -m a',
        f'git push "{evil}" main',
        f'gh pr create -H "{evil}" -t a',
    ):
        inquiry = inquiry_of(command)
        assert inquiry is not None
        witness = await inquiry.note(is_scene(here))
        if witness is not None:
            await inquiry.ask(is_scene(here), witness)
    assert not list(here.root.parent.rglob("hit"))

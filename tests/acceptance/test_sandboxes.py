"""Real harnesses in real sandboxes: turns with an edit and a command, with no network but the gateway."""

import re
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from outlast.records import CallOutcome, FilesKept, Mirrored
from outlast.sites import WorldPacks
from outlast.testing.adapter_contract import Stage, Subject, staged
from outlast.testing.adapter_contract.shop import release
from outlast.testing.adapter_contract.stage import prompt, says, seen, until
from outlast.testing.models import Step, ToolUse
from outlast.workspaces.drive import Drive
from outlast.workspaces.sandbox import sandbox
from outlast.workspaces.sandbox.bubblewrap import Bubblewrap
from tests.harnesses import claude_code, codex, opencode, pi

SUBJECTS: Mapping[str, Subject] = {
    "claude-code": claude_code.SUBJECT,
    "codex": codex.SUBJECT,
    "opencode": opencode.SUBJECT,
    "pi": pi.SUBJECT,
}
TEXT = "def say():\n    return 7\n"
PROBE = (
    "python3 -B -c 'import hello; assert hello.say() == 7; print(\"tests pass\")'; touch tried; "
    "echo routes: $(cat /proc/net/route | wc -l).; echo of the host: $(ls /root /home /srv 2>/dev/null | grep -c shop)."
)


def harness(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.harness(harness=name))


def full(name: str) -> object:
    return pytest.param(name, marks=[pytest.mark.harness(harness=name), pytest.mark.full])


async def texts(stage: Stage) -> Mapping[str, bytes]:
    """The files of the session, as its log has them."""
    state = await (await stage.session()).state()
    drive = Drive(WorldPacks(stage.world, "s"), stage.world.tenant)
    return {
        one.path: await drive.read(state.tree.root, one.path)
        async for one in drive.entries(state.tree.root)
        if one.kind == "file"
    }


# A short name: the paths of sockets are below its directory.
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", [harness(name) for name in SUBJECTS])
async def test_inside(name: str, tmp_path: Path) -> None:
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
        ]
    }
    async with staged(subject, tmp_path, script) as stage:
        stage.workspace = sandbox(idle_s=0)
        outcome = await stage.finish(await stage.send(prompt("go")))
        assert str(outcome) == "It works.", outcome
        assert (await texts(stage))["hello.py"] == TEXT.encode()
        assert not (tmp_path / "shop" / "hello.py").exists()
        told = stage.last_body().decode()
        assert "tests pass" in told
        assert "routes: 1." in told, "there is no network but the loopback"
        assert "of the host: 0." in told
        kept = [one for one in await stage.of_kind(FilesKept) if one.why == "call"]
        settled = [one.call for one in await stage.of_kind(CallOutcome)]
        assert len(kept) == 2
        assert {one.call for one in kept} <= set(settled)


@pytest.mark.full
@pytest.mark.timeout(180)
@pytest.mark.harness(harness="claude-code", turns=2)
async def test_moved(tmp_path: Path) -> None:
    """A turn in one sandbox, killed in its command; the next attempt and the next turn on other machines."""
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
    async with staged(subject, tmp_path, script) as stage:
        stage.workspace = sandbox(idle_s=60)
        turn = await stage.send(prompt("go"))
        victim = await stage.victim(session="s")
        await seen(turn, lambda event: event.kind == "call.started" and event.call == 4)
        victim.kill()
        await victim.death()
        stage.move()
        assert str(await stage.finish(turn)) == "Cut."
        assert "This call was cut off, and nothing of it is left" in stage.last_body().decode()
        assert (await texts(stage))["hello.py"] == TEXT.encode()
        assert str(await stage.finish(await stage.send(prompt("next")))) == "All is there."
        told = stage.last_body().decode()
        assert "return 7" in told
        assert "No such file" in told, "what the command did is gone with its sandbox"


LONG = "echo begun >> log; echo one; sleep {seconds}; echo two >&2; echo ended >> log; echo three"


def told_of(name: str, body: str) -> None:
    """The model reads all that the command said, as its harness would have told it."""
    assert all(word in body for word in ("one", "two", "three")), body
    if name == "codex":
        assert "Process exited with code 0" in body


async def grown(path: Path, text: str) -> Path:
    """The file that a pattern below a directory names, once it holds a text."""
    with anyio.fail_after(60):
        while True:
            for found in path.glob("data/sandboxes/*/files/log"):
                if text in found.read_text():
                    return found
            await anyio.sleep(0.05)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "name", [full(name) if name != "claude-code" else harness(name) for name in SUBJECTS]
)
async def test_only_the_worker_dies(name: str, tmp_path: Path) -> None:
    """What the harness's own shell runs goes on: the next worker waits for it, and it is not begun again."""
    subject = SUBJECTS[name]
    command = subject.shell(LONG.format(seconds=6))
    assert command is not None
    script = {"go": [Step(text="I try.", tools=(command,)), *says("It has run.")]}
    async with staged(subject, tmp_path, script) as stage:
        stage.workspace = sandbox(idle_s=30)
        turn = await stage.send(prompt("go"))
        victim = await stage.victim(session="s")
        log = await grown(tmp_path, "begun")
        victim.kill()
        await victim.death()
        assert log.read_text() == "begun\n", "the worker died in the middle of it"
        assert str(await stage.finish(turn)) == "It has run."
        assert log.read_text() == "begun\nended\n"
        told_of(name, stage.last_body().decode())
        assert (await texts(stage))["log"] == b"begun\nended\n"
        outcomes = [one for one in await stage.of_kind(CallOutcome) if one.call == 2]
        assert [one.status for one in outcomes] == ["ok"]


@pytest.mark.timeout(180)
@pytest.mark.full
@pytest.mark.harness(harness="pi")
async def test_the_sandbox_dies_too(tmp_path: Path) -> None:
    """What went on in it is gone with it: the turn goes on from the files that the log has, and the model is told."""
    subject = SUBJECTS["pi"]
    command = subject.shell(LONG.format(seconds=30))
    assert command is not None
    script = {"go": [Step(text="I try.", tools=(command,)), *says("Cut.")]}
    async with staged(subject, tmp_path, script) as stage:
        stage.workspace = sandbox(idle_s=30)
        turn = await stage.send(prompt("go"))
        victim = await stage.victim(session="s")
        await grown(tmp_path, "begun")
        victim.kill()
        await victim.death()
        boxes = Bubblewrap(stage.data)
        (found,) = await boxes.list({})
        await boxes.destroy(found.ref)
        assert str(await stage.finish(turn)) == "Cut."
        assert "This call was cut off, and nothing of it is left" in stage.last_body().decode()
        assert "log" not in await texts(stage)


@pytest.mark.timeout(180)
@pytest.mark.full
@pytest.mark.harness(harness="pi", turns=2)
async def test_what_is_cancelled_ends(tmp_path: Path) -> None:
    """A command whose turn is cancelled, or whose time is over, does not go on."""
    subject = SUBJECTS["pi"]
    command, look = subject.shell(LONG.format(seconds=3)), subject.shell("sleep 4; echo so: $(cat log)")
    assert command is not None
    assert look is not None
    late = ToolUse(
        name="bash", input={"command": "echo late >> log; sleep 2; echo later >> log", "timeout": 1}
    )
    script = {
        "go": [Step(text="I try.", tools=(command,)), *says("Not said.")],
        "next": [Step(text="I try.", tools=(late,)), Step(text="I look.", tools=(look,)), *says("Seen.")],
    }
    async with staged(subject, tmp_path, script) as stage:
        stage.workspace = sandbox(idle_s=30)
        turn = await stage.send(prompt("go"))
        async with stage.worker():
            await grown(tmp_path, "begun")
            await (await stage.session()).cancel()
            assert (await turn.result()).status == "cancelled"
        assert str(await stage.finish(await stage.send(prompt("next")))) == "Seen."
        told = stage.last_body().decode()
        assert "Command timed out after 1 seconds" in told
        assert "so: begun late" in told
        assert "so: begun late later" not in told


@pytest.mark.timeout(180)
@pytest.mark.full
@pytest.mark.harness(harness="pi")
async def test_a_worker_hands_over_what_runs(tmp_path: Path) -> None:
    subject = SUBJECTS["pi"]
    command = subject.shell(LONG.format(seconds=8))
    assert command is not None
    script = {"go": [Step(text="I try.", tools=(command,)), *says("It has run.")]}
    async with staged(subject, tmp_path, script) as stage:
        stage.workspace = sandbox(idle_s=30)
        turn = await stage.send(prompt("go"))
        async with stage.worker():
            log = await grown(tmp_path, "begun")
        assert str(await stage.finish(turn)) == "It has run."
        assert log.read_text() == "begun\nended\n"
        told_of("pi", stage.last_body().decode())


KINDS = (
    "echo 'single' \"double\" $HOME",
    "cat <<'EOF'\nhere 'doc' \"x\" \\n !\nEOF",
    "ls / | head -1 | cat",
    'echo a && (cd /tmp; pwd) ; echo \\"q\\" `date +%Y`',
    "for i in 1 2; do\n  echo $i\ndone",
    "cd /workspace && echo cwd",
    "echo 'it'\\''s' !bang $((1+2)) ${HOME} # comment",
    "echo ü €",
    "printf 'a\\0b' | od -c | head -2",
)
PARENT = "tr '\\0' ' ' < /proc/$PPID/cmdline"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", [full(name) for name in SUBJECTS])
async def test_every_command_is_one_of_the_sandbox(name: str, tmp_path: Path) -> None:
    """However a harness quotes it, it is known for the call's: its parent is the sandbox's supervisor."""
    subject = SUBJECTS[name]
    commands = [subject.shell(f"{line}\n{PARENT}") for line in KINDS]
    steps = [Step(text="I try.", tools=(one,)) for one in commands if one is not None]
    async with staged(subject, tmp_path, {"go": [*steps, *says("Tried.")]}) as stage:
        stage.workspace = sandbox(idle_s=30)
        assert str(await stage.finish(await stage.send(prompt("go")))) == "Tried."
        assert stage.last_body().decode().count("/run/outlast/inside/__main__.py serve") == len(KINDS)


@pytest.mark.timeout(180)
@pytest.mark.full
@pytest.mark.harness(harness="codex")
async def test_what_codex_goes_on_with_is_waited_for(tmp_path: Path) -> None:
    """A long command whose call has its outcome, while the model waits for its end by `write_stdin`."""
    line = LONG.format(seconds=8)
    first = ToolUse(name="exec_command", input={"cmd": line, "yield_time_ms": 500})
    known = SUBJECTS["codex"].application("look", mark="known", until="known")
    poll = ToolUse(name="write_stdin", input={"chars": "", "yield_time_ms": 20_000})
    script = {
        "go": [
            Step(text="I try.", tools=(first,)),
            Step(text="I look.", tools=(known,)),
            Step(text="I wait.", tools=(poll,)),
            *says("It has run."),
        ]
    }
    async with staged(SUBJECTS["codex"], tmp_path, script) as stage:
        stage.workspace = sandbox(idle_s=30)
        turn = await stage.send(prompt("go"))
        victim = await stage.victim(session="s")
        await until(lambda: stage.effects().count("known") == 1)
        found = re.search(rb"session ID (\d+)", stage.last_body())
        assert found is not None
        poll.input["session_id"] = int(found[1])
        release("known")
        waits = await seen(turn, lambda event: event.kind == "call.started" and event.call == 6)
        victim.kill()
        await victim.death()
        log = await grown(tmp_path, "begun")
        assert log.read_text() == "begun\n", "the worker died in the middle of it"
        assert str(await stage.finish(turn)) == "It has run."
        assert log.read_text() == "begun\nended\n"
        told_of("codex", stage.last_body().decode())
        assert [one.status for one in await stage.of_kind(CallOutcome) if one.call == waits.call] == ["ok"]


SWAP = (
    "find $HOME /tmp -name '*.jsonl' -size +0 2>/dev/null |"
    " while read f; do rm -f $f; ln -s {secret} $f; echo swapped; done"
)
FOUND = "the key of whoever runs the worker"


async def mirrored(stage: Stage) -> bytes:
    """All that the log has of the harness's own files."""
    payloads = [one.lines for one in await stage.of_kind(Mirrored)]
    held = await WorldPacks(stage.world, "s").get_many([one.ref for one in payloads if one.ref])
    return b"".join([*held.values(), *(str(one.value()).encode() for one in payloads if not one.ref)])


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", [harness("codex"), full("pi"), full("claude-code")])
async def test_a_conversation_that_is_a_link_leads_the_worker_nowhere(name: str, tmp_path: Path) -> None:
    """The worker keeps the conversation that lies in the session's HOME, where what the model runs may put a link."""
    subject, secret = SUBJECTS[name], tmp_path / "secret"
    secret.write_text(f"{FOUND}\n" * 20_000)
    command = subject.shell(SWAP.format(secret=secret))
    assert command is not None
    script = {"go": [Step(text="I swap.", tools=(command,)), *says("Swapped.")]}
    async with staged(subject, tmp_path, script) as stage:
        stage.workspace = sandbox(idle_s=0)
        turn = await stage.send(prompt("go"))
        with anyio.move_on_after(60):
            await stage.finish(turn)
        kept = await mirrored(stage)
        assert b"I swap." in kept or name == "claude-code"
        assert FOUND.encode() not in kept
    assert secret.read_text() == f"{FOUND}\n" * 20_000

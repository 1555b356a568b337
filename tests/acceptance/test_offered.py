"""Programs without tools of their own, on files in the log: those of the worker stand in their place."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from anyio import to_thread

from outlast.engine.places import EMPTY
from outlast.gate import Point
from outlast.records import CallIntent, CallOutcome, FilesKept, FilesLost
from outlast.session import Session
from outlast.sites import WorldPacks
from outlast.testing.adapter_contract import Stage, Subject, staged
from outlast.testing.adapter_contract.promises import moved_prefixes
from outlast.testing.adapter_contract.stage import prompt, says, seen
from outlast.testing.faults import Spot
from outlast.testing.models import Step, ToolUse
from outlast.workspaces.drive import Drive
from outlast.workspaces.virtual import virtual
from tests.acceptance.test_edits import OPENCODE_PATCHING
from tests.acceptance.wrapping import environ
from tests.harnesses import claude_code, opencode, pi

TEXT = "def say():\n    return 7\n"
SECRET = "the-host-s-own-secret"
PREFIX = "mcp__outlast__"


@dataclass(frozen=True)
class Program:
    """A harness, and the tools that stand in for its own as its model calls them."""

    subject: Subject
    edit: ToolUse
    """In `hello.py`, 7 to 8."""
    looks: Sequence[ToolUse]
    """At the same file, once in every way that there is."""

    def shell(self, command: str) -> ToolUse:
        use = self.subject.shell(command)
        assert use is not None
        return use

    def write(self, path: str, text: str) -> ToolUse:
        use = self.subject.write(path, text)
        assert use is not None
        return use

    def read(self, path: str) -> ToolUse:
        name = PREFIX + "read" if self.subject.name == "claude-code" else "read"
        return ToolUse(name=name, input={"filePath" if self.subject.name == "opencode" else "path": path})


class ClaudeCodeBeside(claude_code.ClaudeCodeSubject):
    """Claude Code with our tools in the place of its own, which have their names among MCP tools."""

    recipe = "tests.acceptance.test_offered:CLAUDE_CODE"

    def shell(self, command: str) -> ToolUse:
        return ToolUse(name=PREFIX + "bash", input={"command": command})

    def write(self, path: str, text: str) -> ToolUse:
        return ToolUse(name=PREFIX + "write", input={"path": path, "content": text})


CLAUDE_CODE = ClaudeCodeBeside()
PROGRAMS: Mapping[str, Program] = {
    "claude-code": Program(
        CLAUDE_CODE,
        ToolUse(name=PREFIX + "edit", input={"path": "hello.py", "old_string": "7", "new_string": "8"}),
        [
            ToolUse(name=PREFIX + "read", input={"path": "hello.py", "limit": 1}),
            ToolUse(name=PREFIX + "grep", input={"pattern": "return", "glob": "*.py"}),
            ToolUse(name=PREFIX + "glob", input={"pattern": "*.py"}),
            ToolUse(name=PREFIX + "ls", input={}),
        ],
    ),
    "opencode": Program(
        opencode.SUBJECT,
        ToolUse(name="edit", input={"filePath": "/workspace/hello.py", "oldString": "7", "newString": "8"}),
        [
            ToolUse(name="read", input={"filePath": "hello.py", "limit": 1}),
            ToolUse(name="grep", input={"pattern": "return", "include": "*.py"}),
            ToolUse(name="glob", input={"pattern": "**/*.py"}),
            ToolUse(name="list", input={}),
        ],
    ),
    "pi": Program(
        pi.SUBJECT,
        ToolUse(
            name="edit", input={"path": "hello.py", "edits": [{"oldText": "return 7", "newText": "return 8"}]}
        ),
        [
            ToolUse(name="read", input={"path": "hello.py", "limit": 1}),
            ToolUse(name="grep", input={"pattern": "return", "glob": "*.py"}),
            ToolUse(name="find", input={"pattern": "*.py"}),
            ToolUse(name="ls", input={}),
        ],
    ),
}


def harness(name: str, *, core: bool = True) -> object:
    """A program to try, in `make test` only where that is `core`: turns of real programs are dear."""
    mark = pytest.mark.harness(harness=name)
    return pytest.param(name, marks=mark if core else (mark, pytest.mark.full))


async def texts(stage: Stage) -> Mapping[str, bytes]:
    """The files of the session, as its log has them."""
    state = await (await Session.find(stage.world, "s")).state()
    drive = Drive(WorldPacks(stage.world, "s"), stage.world.tenant)
    return {
        one.path: await drive.read(state.tree.root, one.path)
        async for one in drive.entries(state.tree.root)
        if one.kind == "file"
    }


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", [harness(name, core=False) for name in PROGRAMS])
async def test_a_program_works_on_files_in_the_log_with_our_tools(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    script = {
        "go": [
            Step(text="I write.", tools=(program.write("hello.py", TEXT),)),
            Step(text="I change it.", tools=(program.edit,)),
            Step(text="I look.", tools=tuple(program.looks)),
            Step(text="I try.", tools=(program.shell("cat hello.py; pwd; touch tried"),)),
            *says("It works."),
        ]
    }
    async with staged(program.subject, tmp_path, script) as stage:
        stage.workspace = virtual()
        outcome = await stage.finish(await stage.send(prompt("go")))
        assert str(outcome) == "It works.", outcome
        assert await texts(stage) == {"hello.py": TEXT.replace("7", "8").encode(), "tried": b""}
        intents = [one for one in await stage.of_kind(CallIntent) if one.kind == "tool"]
        assert {(one.runs_in, one.policy) for one in intents} == {("worker", "safe")}
        ends = [one.status for one in await stage.of_kind(CallOutcome)]
        assert set(ends) == {"ok"}
        kept = [one.call for one in await stage.of_kind(FilesKept)]
        assert len(kept) == 3, "each call that changed files, and no other"
        told = stage.last_body().decode()
        assert "return 8" in told
        assert "hello.py:2:" in told
        assert "\\n/workspace" in told
        assert not any(path.name == "hello.py" for path in tmp_path.rglob("*"))
        await stage.kept()


BUILT_IN: Mapping[str, Sequence[ToolUse]] = {
    "claude-code": [
        ToolUse(name="Bash", input={"command": "hostname"}),
        ToolUse(name="Read", input={"file_path": "/etc/hostname"}),
        ToolUse(name="WebFetch", input={"url": "http://127.0.0.1:1/", "prompt": "read"}),
        ToolUse(name="Task", input={"description": "x", "prompt": "x", "subagent_type": "general-purpose"}),
    ],
    "opencode": [
        ToolUse(name="webfetch", input={"url": "http://127.0.0.1:1/", "format": "text"}),
        ToolUse(name="skill", input={"name": "anything"}),
        ToolUse(
            name="apply_patch", input={"patchText": "*** Begin Patch\n*** Add File: x\n+x\n*** End Patch"}
        ),
        ToolUse(name="websearch", input={"query": "anything"}),
    ],
    "pi": [
        ToolUse(name="powershell", input={"command": "hostname"}),
        ToolUse(name="codemode", input={"code": "1"}),
        ToolUse(name="read_mcp_resource", input={"uri": "file:///etc/passwd"}),
    ],
}
"""Tools of the program's own, by name, of which none is offered."""


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", [harness(name, core=name == "opencode") for name in PROGRAMS])
async def test_no_file_of_the_host_is_reached_by_whatever_name(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    for directory in (tmp_path, tmp_path / "data", tmp_path / "user"):
        directory.mkdir(exist_ok=True)
        for file in ("AGENTS.md", "CLAUDE.md"):
            (directory / file).write_text(SECRET)
        (directory / "opencode.json").write_text(json.dumps({"instructions": [str(secret)]}))
    place = f"data/homes/s/{EMPTY}/x"
    reads = [
        program.read(str(secret)),
        program.read("../../../../.." + str(secret)),
        program.read(f"~/{EMPTY}"),
    ]
    lines = [f"cat {secret}", f"cat /proc/self/environ; ls {tmp_path} /", f"ln -s {secret} l; cat l"]
    lines.append(f"echo x > {tmp_path / place}")
    script = {
        "go": [
            Step(text="I read.", tools=tuple(reads)),
            *(Step(text="I try.", tools=(program.shell(line),)) for line in lines),
            *(Step(text="I call.", tools=(use,)) for use in BUILT_IN[name]),
            Step(
                text="I write.", tools=(program.write(str(tmp_path / place), "x"), program.write("here", "x"))
            ),
            *says("Nothing."),
        ]
    }
    async with staged(program.subject, tmp_path, script) as stage:
        stage.workspace = virtual()
        said = f"Read @{secret} and @secret. [script:go]"
        assert str(await stage.finish(await stage.send(said))) == "Nothing."
        bodies = [body.decode() for one in stage.requests() if (body := stage.models.find_body(one.n))]
        assert len(bodies) == len(script["go"])
        assert not any(SECRET in body for body in bodies)
        assert not any("OUTLAST_ATTEMPT_TOKEN" in body or "PATH=" in body for body in bodies)
        assert not (tmp_path / place).exists()
        assert (await texts(stage))["here"] == b"x"
        assert "x" not in await texts(stage), "a tool that is not offered does not run"
        intents = {one.call: one for one in await stage.of_kind(CallIntent)}
        foreign = [one for one in intents.values() if one.name in {use.name for use in BUILT_IN[name]}]
        assert len(foreign) == len(BUILT_IN[name])
        ends = {one.call: one.status for one in await stage.of_kind(CallOutcome)}
        assert {ends[one.call] for one in foreign} == {"error"}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", [harness(name, core=name == "pi") for name in PROGRAMS])
async def test_a_turn_killed_in_a_tool_goes_on_elsewhere_with_files_as_the_log_has_them(
    name: str, tmp_path: Path
) -> None:
    program = PROGRAMS[name]
    line = "echo once >> log; sleep 3; echo twice >> log"
    script = {
        "go": [
            Step(text="I write.", tools=(program.write("hello.py", TEXT),)),
            Step(text="I try.", tools=(program.shell(line), program.edit)),
            *says("All is there."),
        ],
    }
    async with staged(program.subject, tmp_path, script) as stage:
        # Where no home is named each machine has its own; of Claude Code's the prompt tells.
        home = stage.home("s") if name == "claude-code" else None
        session = await Session.open(stage.world, "s", agent=stage.agent, workspace=virtual(), home=home)
        turn = await session.send(prompt("go"))
        victim = await stage.victim(session="s")
        await seen(turn, lambda event: event.kind == "call.started" and event.call == 4)
        victim.kill()
        await victim.death()
        stage.move()
        assert str(await stage.finish(turn)) == "All is there."
        changed = TEXT.replace("7", "8")
        assert await texts(stage) == {"hello.py": changed.encode(), "log": b"once\ntwice\n"}
        await stage.kept()
        moved = list(moved_prefixes(await stage.evidence()))
        assert not moved, "\n".join(moved)


@pytest.mark.full
@pytest.mark.timeout(180)
@pytest.mark.harness(harness="opencode")
async def test_models_of_openai_patch_the_files_in_the_log(tmp_path: Path) -> None:
    subject = OPENCODE_PATCHING
    patch = "*** Begin Patch\n*** Update File: hello.py\n@@\n-    return 7\n+    return 8\n*** End Patch"
    made = subject.write("hello.py", TEXT)
    script = {
        "go": [
            Step(text="I write.", tools=(made,)),
            Step(text="I change it.", tools=(ToolUse(name="apply_patch", input={"patchText": patch}),)),
            Step(text="I try.", tools=(ToolUse(name="write", input={"filePath": "x", "content": "x"}),)),
            *says("It works."),
        ]
    }
    async with staged(subject, tmp_path, script) as stage:
        stage.workspace = virtual()
        assert str(await stage.finish(await stage.send(prompt("go")))) == "It works."
        assert await texts(stage) == {"hello.py": TEXT.replace("7", "8").encode()}
        offered = {tool["name"] for tool in json.loads(stage.last_body())["tools"]}
        assert {"bash", "read", "glob", "grep", "list", "apply_patch"} <= offered
        assert not {"edit", "write", "webfetch"} & offered
        await stage.kept()


@pytest.mark.full
@pytest.mark.timeout(180)
@pytest.mark.harness(harness="opencode")
async def test_a_sub_agent_works_on_the_same_files_with_the_same_tools(tmp_path: Path) -> None:
    program = PROGRAMS["opencode"]
    sub_agent = program.subject.sub_agent("helper")
    assert sub_agent is not None
    script = {
        "go": [Step(text="I ask.", tools=(sub_agent,)), *says("It is there.")],
        "helper": [Step(text="I write.", tools=(program.write("hello.py", TEXT),)), *says("Written.")],
    }
    async with staged(program.subject, tmp_path, script) as stage:
        stage.workspace = virtual()
        turn = await stage.send(prompt("go"))
        await stage.killed_at(Spot(Point.AFTER_EFFECT, "safe"))
        assert str(await stage.finish(turn)) == "It is there."
        assert await texts(stage) == {"hello.py": TEXT.encode()}
        (call,) = [one for one in await stage.of_kind(CallIntent) if one.name == "write"]
        assert (call.runs_in, call.lane.startswith("sub")) == ("worker", True)


@pytest.mark.full
@pytest.mark.timeout(180)
@pytest.mark.harness(harness="pi")
async def test_of_files_that_are_nowhere_written_down_the_model_is_told_what_is_gone(tmp_path: Path) -> None:
    program = PROGRAMS["pi"]
    script = {
        "go": [
            Step(text="I write.", tools=(program.write("hello.py", TEXT),)),
            Step(text="I look.", tools=(program.shell("cat given"),)),
            Step(text="I look again.", tools=(program.read("hello.py"),)),
            *says("All is told."),
        ]
    }
    async with staged(program.subject, tmp_path, script) as stage:
        stage.workspace = virtual({"given": "from the beginning\n"}, durable=False)
        turn = await stage.send(prompt("go"))
        await stage.killed_at(Spot(Point.AFTER_EFFECT, "safe", 2))
        assert str(await stage.finish(turn)) == "All is told."
        (loss,) = await stage.of_kind(FilesLost)
        assert "its files are as they were at first" in loss.text
        assert "- write hello.py: hello.py" in loss.text
        bodies = [(stage.models.find_body(one.n) or b"").decode() for one in stage.requests("go")]
        assert [body.count("[outlast] The workspace was lost") for body in bodies] == [0, 0, 1, 1]
        assert "from the beginning" in bodies[-1]
        await stage.kept()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", [harness(name, core=False) for name in PROGRAMS])
async def test_outlast_run_gives_a_program_files_in_the_log(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    script = {"go": [Step(text="I write.", tools=(program.write("hello.py", TEXT),)), *says("It is there.")]}
    async with staged(program.subject, tmp_path, script) as stage:
        words = ["run", name, "--workspace", "virtual", "--session", "s", prompt("go")]
        said = await to_thread.run_sync(outlast, stage, *words)
        assert said.returncode == 0, said.stdout + said.stderr
        assert "virtual files, in the log" in said.stdout + said.stderr
        assert await texts(stage) == {"hello.py": TEXT.encode()}
        refused = ["run", "codex", "--workspace", "virtual", "--session", "t", prompt("go")]
        said = await to_thread.run_sync(outlast, stage, *refused)
        assert said.returncode == 2
        assert "codex is a program that needs tools of its own" in said.stderr


def outlast(stage: Stage, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of ours to its end."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "outlast.cli", *words],
        env={**os.environ, **environ(stage)},
        cwd=stage.shop,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

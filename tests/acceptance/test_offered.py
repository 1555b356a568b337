"""Programs without tools of their own, on files in the log: those of the worker stand in their place."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from outlast.engine.places import EMPTY
from outlast.records import CallIntent, CallOutcome, FilesKept
from outlast.sites import WorldPacks
from outlast.testing.adapter_contract import Stage, Subject, staged
from outlast.testing.adapter_contract.promises import moved_prefixes
from outlast.testing.adapter_contract.stage import prompt, says, seen
from outlast.testing.models import Step, ToolUse
from outlast.workspaces.drive import Drive
from outlast.workspaces.virtual import virtual
from tests.harnesses import opencode, pi

TEXT = "def say():\n    return 7\n"
SECRET = "the-host-s-own-secret"


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
        return ToolUse(name="read", input={"path" if self.subject.name == "pi" else "filePath": path})


PROGRAMS: Mapping[str, Program] = {
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


def harness(name: str, turns: int = 1) -> object:
    return pytest.param(name, marks=pytest.mark.harness(harness=name, turns=turns))


async def texts(stage: Stage) -> Mapping[str, bytes]:
    """The files of the session, as its log has them."""
    state = await (await stage.session()).state()
    drive = Drive(WorldPacks(stage.world, "s"), stage.world.tenant)
    return {
        one.path: await drive.read(state.tree.root, one.path)
        async for one in drive.entries(state.tree.root)
        if one.kind == "file"
    }


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", [harness(name) for name in PROGRAMS])
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
        assert "/workspace\\n" in told
        assert not any(path.name == "hello.py" for path in tmp_path.rglob("*"))
        await stage.kept()


BUILT_IN: Mapping[str, Sequence[ToolUse]] = {
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
@pytest.mark.parametrize("name", [harness(name) for name in PROGRAMS])
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
@pytest.mark.parametrize("name", [harness(name, turns=2) for name in PROGRAMS])
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
        "next": [Step(text="I look.", tools=(program.shell("cat log hello.py"),)), *says("And on.")],
    }
    async with staged(program.subject, tmp_path, script) as stage:
        stage.workspace = virtual()
        turn = await stage.send(prompt("go"))
        victim = await stage.victim(session="s")
        await seen(turn, lambda event: event.kind == "call.started" and event.call == 4)
        victim.kill()
        await victim.death()
        stage.move()
        assert str(await stage.finish(turn)) == "All is there."
        changed = TEXT.replace("7", "8")
        assert await texts(stage) == {"hello.py": changed.encode(), "log": b"once\ntwice\n"}
        assert str(await stage.finish(await stage.send(prompt("next")))) == "And on."
        assert "once\\ntwice" in stage.last_body().decode()
        await stage.kept()
        moved = list(moved_prefixes(await stage.evidence()))
        assert not moved, "\n".join(moved)

"""Programs without tools of their own: what stands in, what is refused, and who can work where no program does."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from outlast.adapter import (
    Agent,
    Attempt,
    Deny,
    Door,
    HookAsk,
    Let,
    ModelAsk,
    Places,
    Resolved,
    Send,
    ToolAsk,
    TurnResult,
)
from outlast.adapters.claude_code import ClaudeCode
from outlast.adapters.claude_code.dialogue import ClaudeCodeDialogue
from outlast.adapters.codex import Codex
from outlast.adapters.opencode import OpenCode
from outlast.adapters.opencode.dialogue import Bare, OpenCodeDialogue
from outlast.adapters.opencode.launch import Launch, config, environment
from outlast.adapters.opencode.offered import OFFERED as OPENCODE
from outlast.adapters.opencode.offered import denied
from outlast.adapters.opencode.permissions import NOT_STARTED, Permissions
from outlast.adapters.pi import Pi
from outlast.adapters.pi.dialogue import PLACEHOLDER, PiDialogue, Welcome
from outlast.adapters.pi.offered import OFFERED as PI
from outlast.adapters.python import IO, Loop
from outlast.adapters.scripted import BuiltIn, Scripted
from outlast.engine.places import empty_of, make_empty
from outlast.errors import BadInput
from outlast.offering import check_place, stand_ins, with_stand_ins
from outlast.records import CallIntent, CallOutcome
from outlast.session import Session
from outlast.tool import Tool, ToolIO, tool
from outlast.workspace_tools import standing_in, workspace_tools
from outlast.workspaces.local import local
from outlast.workspaces.virtual import virtual
from outlast.world import World
from tests.paper import Paper, Scrap, on_paper
from tests.unit.engine_desk import Desk, agent_of, records


async def nothing(io: IO, prompt: str) -> object:
    return None


async def done(_: Mapping[str, Any]) -> object:
    return "done"


@tool(replay="safe")
async def bash(io: ToolIO, command: str) -> str:
    """Run it."""
    return f"ran {command}"


class Program(Scripted):
    """A harness with a shell and a notebook of its own, of which it can do without the shell."""

    keeps: Collection[str] = ("Note",)

    def __init__(self, asks: Sequence[ToolAsk]) -> None:
        super().__init__(built_ins={"Shell": BuiltIn(done, "safe"), "Note": BuiltIn(done, "safe")})
        self._asks = asks
        self.verdicts: list[Let | Deny] = []

    def offered(self, settings: Mapping[str, Any]) -> Sequence[Tool]:
        return standing_in([bash])

    async def advance(self, attempt: Attempt) -> TurnResult:
        match await attempt.calls.open_model(ModelAsk("main", "m", "match", {}, [])):
            case Send(call):
                await attempt.calls.settle_model(call, {"text": "go"}, self._asks, None)
            case other:
                raise AssertionError(other)
        for ask in self._asks:
            self.verdicts.append(await attempt.calls.start_tool(ask.harness_id, ask.name, ask.arguments))
            if ask.name in attempt.tools:
                await attempt.calls.run_tool(ask.name, ask.arguments, harness_id=ask.harness_id)
        return TurnResult("done")


async def work(world: World, program: Program, *, programs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(places: Places, *, workspace: bool) -> None:
        pass

    monkeypatch.setattr("outlast.sites.make_places", none)
    agent = agent_of([], adapter=program)
    session = await Session.open(world, "s-1", agent=agent, workspace=Scrap())
    await session.send("go")
    around = on_paper(world, Paper(programs=programs), Path("/nonexistent-data"), beside=not programs)
    await Desk(world, surroundings=around).work(agent)


ASKS = [ToolAsk("a", "Shell", {}), ToolAsk("b", "Note", {}), ToolAsk("c", "bash", {"command": "ls"})]


async def test_where_no_program_runs_a_harness_has_of_its_own_tools_only_those_that_it_keeps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(ASKS)
    await work(world, program, programs=False, monkeypatch=monkeypatch)
    shell, note, ours = program.verdicts
    assert isinstance(shell, Deny)
    assert "There is no tool 'Shell' here" in shell.text
    assert isinstance(note, Let)
    assert isinstance(ours, Let)
    log = await records(world)
    intents = {one.name: one for one in log if isinstance(one, CallIntent) and one.kind == "tool"}
    assert (intents["bash"].runs_in, intents["bash"].policy) == ("worker", "safe")
    ends = {one.call: one for one in log if isinstance(one, CallOutcome)}
    assert ends[intents["Shell"].call].status == "error"
    assert ends[intents["bash"].call].result.value() == "ran ls"


async def test_where_programs_run_a_harness_keeps_its_tools_and_nothing_stands_in(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(ASKS[:2])
    await work(world, program, programs=True, monkeypatch=monkeypatch)
    assert all(isinstance(verdict, Let) for verdict in program.verdicts)


def test_a_program_that_needs_its_tools_is_refused_a_workspace_that_holds_none() -> None:
    with pytest.raises(BadInput, match=r"codex is a program that needs tools of its own"):
        check_place("codex", Codex(), virtual())
    for adapter in (Pi(), OpenCode(), ClaudeCode(), Loop(nothing)):
        check_place("it", adapter, virtual())
    check_place("codex", Codex(), local("."))


async def test_a_session_of_such_a_program_is_not_opened(world: World) -> None:
    agent = Agent("codex", Codex(), workspace=virtual())
    with pytest.raises(BadInput, match="holds none"):
        await Session.open(world, "s-1", agent=agent)


def test_of_the_application_s_tools_those_on_the_workspace_give_way_and_others_stay() -> None:
    own = {one.name: one for one in [*workspace_tools(), bash]}  # the last is the application's own
    found = with_stand_ins(own, PI)
    assert found["bash"] is bash
    assert {one.name for one in stand_ins(found)} == {one.name for one in PI} - {"bash"}
    assert "glob" in found, "Pi has none of that name"


@pytest.mark.parametrize("offered", [PI, OPENCODE])
def test_what_stands_in_changes_nothing_but_the_workspace(offered: Sequence[Tool]) -> None:
    assert all(one.within and one.stands_in for one in offered)


def test_models_of_openai_are_offered_patches_as_opencode_has_it() -> None:
    def names(model: str) -> set[str]:
        return {one.name for one in OpenCode().offered({"model": model})}

    assert names("openai/gpt-5") == {"bash", "read", "glob", "grep", "list", "apply_patch"}
    assert names("openai/gpt-4.1") == names("") == {"bash", "read", "glob", "grep", "list", "edit", "write"}


def test_opencode_s_own_tools_are_denied_but_for_those_that_have_a_stand_in() -> None:
    taken = denied([one.name for one in OPENCODE])
    assert set(taken) == {"codesearch", "execute", "lsp", "skill", "webfetch", "websearch"}
    assert {"edit", "bash"} <= set(denied(["read"]))


def test_a_result_is_short_enough_for_opencode_to_leave_it_as_it_is() -> None:
    cut = OPENCODE[0].function.__globals__["_cut"]
    assert cut("x\n" * 10_000).count("\n") < 2_000
    assert len(cut("x" * 100_000)) < 50_000
    assert cut("short\n") == "short\n"


def asked(*names: str) -> Mapping[str, Any]:
    return {"tools": [{"name": name} for name in names]}


def test_a_request_that_offers_a_tool_of_the_program_s_own_goes_nowhere() -> None:
    opencode = OpenCodeDialogue(["outlast_pay"], 0.0, bare=Bare("/workspace", OPENCODE))
    assert opencode.complaint("main", asked("outlast_pay", "bash", "todowrite")) is None
    assert opencode.complaint("main", asked("outlast_pay", "bash", "webfetch")) == (
        "OpenCode offers tools of its own: webfetch"
    )
    claude = ClaudeCodeDialogue("s", ["mcp__outlast__bash"], bare=True)
    assert claude.complaint("main", asked("mcp__outlast__bash")) is None
    assert claude.complaint("main", asked("mcp__outlast__bash", "Bash")) == (
        "Claude Code offers tools of its own: Bash"
    )
    welcome = Welcome("anthropic", PI, shown="/workspace")

    async def record() -> None:
        pass

    pi = PiDialogue("anthropic", welcome, known={}, walks=0, record=record)
    own = [one.name for one in PI]
    assert pi.complaint("main", asked(*own, PLACEHOLDER)) is None
    assert pi.complaint("main", asked(*own, "powershell")) == "Pi offers tools of its own: powershell"


def test_opencode_s_own_tool_of_a_name_that_stands_in_may_not_run() -> None:
    intent = CallIntent(1, 1, "main", 0, "tool", "bash", harness_id="c")

    class Calls:
        def intent_of(self, harness_id: str) -> CallIntent:
            return intent

    class Asking:
        calls = Calls()

        @property
        def tools(self) -> Mapping[str, Tool]:
            return {one.name: one for one in OPENCODE}

    permissions = Permissions(cast("Any", Asking()), cast("Any", None))
    question = {"permission": "bash", "patterns": ["ls"], "tool": {"callID": "c"}}
    assert permissions._refusal(question) == NOT_STARTED  # pyright: ignore[reportPrivateUsage] - the answer without a server


def test_a_program_without_files_works_in_a_directory_that_is_empty(tmp_path: Path) -> None:
    places = empty_of(Places(Path("/workspace"), tmp_path / "home"))
    make_empty(places)
    (places.cwd / "left").write_text("by another attempt")
    make_empty(places)
    assert list(places.cwd.iterdir()) == []
    assert places.cwd.is_relative_to(places.home)


DOOR = Door("http://127.0.0.1:9", "t", "http://127.0.0.1:9/hooks", "http://127.0.0.1:9/tools")
LAUNCH = Launch(Path("/opt/opencode"), "1.18.33", "n", Path("/home/u"), DOOR, "word")


def test_what_opencode_reads_by_itself_is_switched_off_and_no_rule_of_the_user_brings_a_tool_back() -> None:
    rules = {"webfetch": "allow", "*": "allow"}
    mine = {"permission": rules, "mcp": {"github": {"type": "local"}}}
    bare = replace(LAUNCH, config=mine, denied=["webfetch", "skill"])
    assert list(config(bare)["permission"].items())[-2:] == [("webfetch", "deny"), ("skill", "deny")]
    assert list(config(bare)["mcp"]) == ["outlast"], "a server of the user's runs on the host"
    assert environment(bare, {})["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    assert "OPENCODE_DISABLE_PROJECT_CONFIG" not in environment(LAUNCH, {})


def test_the_plugin_is_told_what_stands_in() -> None:
    opencode = OpenCodeDialogue([], 0.0, bare=Bare("/workspace", OPENCODE))
    told = opencode.hook_answer(HookAsk("hello"), None)
    assert told["cwd"] == "/workspace"
    assert [one["name"] for one in told["tools"]] == [one.name for one in OPENCODE]
    assert OpenCodeDialogue([], 0.0).hook_answer(HookAsk("hello"), None) == {}


def test_a_stand_in_runs_in_the_worker_under_the_name_of_the_program_s_own() -> None:
    tools = {one.name: one for one in OPENCODE}
    found = OpenCode().resolve("bash", {"command": "ls"}, tools)
    assert found == Resolved("bash", "worker", "never")
    assert OpenCode().resolve("bash", {"command": "ls"}, {}).runs_in == "harness"
    assert Pi().resolve("edit", {}, {one.name: one for one in PI}).runs_in == "worker"

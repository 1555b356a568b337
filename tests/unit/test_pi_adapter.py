"""How Pi is started, how it and its extension speak, what its own tools may do again, and how its turns end."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outlast import ToolIO, tool
from outlast.adapter import MAIN, Deny, Door, HookAsk, Let, ToolResult
from outlast.adapters.pi import Pi, launch, stream
from outlast.adapters.pi.dialogue import COMPACTION, PiDialogue, Welcome
from outlast.adapters.pi.ending import result_of
from outlast.adapters.pi.policies import policy_of
from outlast.adapters.pi.versions import Installed, installed
from outlast.errors import HarnessError, HarnessMissing
from outlast.records.kinds import Policy

DOOR = Door(
    "http://127.0.0.1:1", "secret", "http://127.0.0.1:1/outlast/hooks", "http://127.0.0.1:1/outlast/tools"
)


@tool
async def refund(io: ToolIO, order: str) -> str:
    """Refund an order."""
    return order


async def nothing() -> None:
    """Nothing is to be mirrored."""


def dialogue(walks: int = 0, known: Mapping[str, ToolResult] | None = None) -> PiDialogue:
    welcome = Welcome("anthropic", [refund], {2: ["blue"]})
    return PiDialogue("anthropic", welcome, known=known or {}, walks=walks, record=nothing)


def launched(**changes: Any) -> launch.Launch:
    told: dict[str, Any] = {
        "node": Path("/n/node"), "program": Path("/p/cli.js"), "session": "u", "home": Path("/h"), "door": DOOR,
        "model": "m",
    }  # fmt: skip
    return launch.Launch(**{**told, **changes})


# the start


def test_every_start_has_the_same_command_line() -> None:
    words = launch.argv(launched(flags=["--thinking", "off"]))
    assert words[:4] == ["/n/node", "/p/cli.js", "--mode", "rpc"]
    assert "/h/.outlast-pi/u/agent/sessions/u.jsonl" in words
    assert words[-2:] == ["--thinking", "off"]
    assert "--no-approve" in words
    assert "--no-approve" not in launch.argv(launched(flags=["--approve"]))


def test_the_token_is_on_no_command_line_and_no_file() -> None:
    started = launched()
    assert "secret" not in " ".join(launch.argv(started))
    assert "secret" not in str(launch.settings(started)) + str(launch.provider_config(started))


def test_the_environment_leads_nowhere_but_to_the_gateway() -> None:
    inherited = {
        "PATH": "/bin",
        "ANTHROPIC_API_KEY": "k",
        "OPENAI_API_KEY": "k",
        "PI_PROVIDER": "x",
        "NO_PROXY": "a",
    }
    env = launch.environment(launched(), inherited)
    assert not {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "PI_PROVIDER"} & env.keys()
    assert (env["PATH"], env["HOME"], env["PI_OFFLINE"]) == ("/bin", "/h", "1")
    assert env["NO_PROXY"].startswith("a,127.0.0.1")


def test_the_user_s_settings_do_not_bring_back_retries() -> None:
    told = launch.settings(launched(options={"retry": {"enabled": True}, "compaction": {"enabled": False}}))
    assert told["retry"]["enabled"] is False
    assert told["compaction"] == {"enabled": False}


def test_a_key_of_another_provider_does_not_choose_the_model(tmp_path: Path) -> None:
    module = tmp_path / "dist" / "core" / "model-resolver.js"
    module.parent.mkdir(parents=True)
    told = '  "amazon-bedrock": "us.one",\n    anthropic: "claude-two",\n    "outlast-x": "y",\n'
    module.write_text(
        f'export const defaultModelPerProvider = {{\n  {told}}};\nconst other = {{\n openai: "no" }};\n'
    )
    found = Installed(tmp_path, Path("/n"), "1.6.0")
    assert [found.default_model(name) for name in ("anthropic", "openai", "outlast")] == [
        "claude-two",
        "",
        "",
    ]
    assert Installed(tmp_path / "no", Path("/n"), "1.6.0").default_model("anthropic") == ""
    chosen = launch.settings(launched(model="", default="claude-two"))
    assert (chosen["defaultProvider"], chosen["defaultModel"]) == ("anthropic", "claude-two")
    assert "defaultModel" not in launch.settings(launched())


@pytest.mark.parametrize(
    ("api", "provider", "config"),
    [
        ("anthropic-messages", "anthropic", {"baseUrl": DOOR.base_url}),
        ("openai-responses", "openai", {"baseUrl": DOOR.base_url + "/v1"}),
    ],
)
def test_models_that_pi_knows_are_left_to_it(api: str, provider: str, config: Mapping[str, Any]) -> None:
    assert (launch.provider(api), launch.provider_config(launched(api=api))) == (provider, config)


def test_a_model_that_pi_does_not_know_is_described() -> None:
    config = launch.provider_config(launched(api="openai-completions"))
    assert launch.provider("openai-completions") == "outlast"
    assert [model["id"] for model in config["models"]] == ["m"]


def test_the_extension_is_in_the_package() -> None:
    assert launch.EXTENSION.is_file()


def test_a_pi_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(HarnessMissing, match="outlast install pi"):
        installed(tmp_path)


def test_a_pi_that_was_not_tested_is_warned_of() -> None:
    warning = Installed(Path("/p"), Path("/n"), "9.0.0").warning
    assert warning is not None
    assert "9.0.0" in warning
    assert Installed(Path("/p"), Path("/n"), "1.6.0").warning is None


# its words


def test_a_request_for_a_summary_is_beside_the_conversation() -> None:
    said = "You are a context summarization assistant. Your task is"
    for request in (
        {"system": [{"type": "text", "text": said}]},
        {"system": said},
        {"instructions": said},
        {"messages": [{"role": "system", "content": said}]},
        {"input": [{"role": "developer", "content": [{"type": "input_text", "text": said}]}]},
    ):
        assert dialogue().lane_of({}, request) == COMPACTION
    assert dialogue().lane_of({}, {"messages": [{"role": "user", "content": said}]}) == MAIN


async def test_the_frontier_is_reached_with_the_last_request_that_the_log_has() -> None:
    speaks = dialogue(walks=2)
    speaks.lane_of({}, {"system": "You are a context summarization assistant."})
    speaks.lane_of({}, {})
    assert not speaks.at_frontier.is_set()
    speaks.lane_of({}, {})
    await asyncio.wait_for(speaks.at_frontier.wait(), 1)


def test_a_request_without_the_application_s_tools_goes_nowhere() -> None:
    speaks = dialogue()
    assert "refund" in (speaks.complaint(MAIN, {"tools": [{"name": "bash"}]}) or "")
    assert speaks.complaint(MAIN, {"tools": [{"name": "refund"}]}) is None
    assert speaks.complaint(MAIN, {"tools": [{"function": {"name": "refund"}}]}) is None
    assert speaks.complaint(COMPACTION, {}) is None
    speaks.over = True
    assert speaks.complaint(COMPACTION, {}) == "the turn is over"


def test_the_hello_brings_the_tools_and_what_is_said_again() -> None:
    told = dialogue().hook_answer(dialogue().read_hook("hello", {}), None)
    assert told["outlast"] == "welcome"
    assert [one["name"] for one in told["tools"]] == ["refund"]
    assert told["steers"] == {"2": ["blue"]}


def test_a_call_runs_only_if_its_own_id_is_said() -> None:
    speaks = dialogue(known={"b": ToolResult("ok", "done before")})
    ask = speaks.read_hook("before", {"call": "a", "name": "bash", "input": {"command": "ls"}})
    assert ask == HookAsk("before", "a", "bash", {"command": "ls"})
    assert speaks.hook_answer(ask, Let(1, {})) == {"run": "a"}
    assert speaks.hook_answer(ask, Deny("No.")) == {"run": "", "reason": "No."}
    assert not speaks.hook_answer(ask, None)["run"]
    again = speaks.read_hook("before", {"call": "b", "name": "bash", "input": {}})
    told = speaks.hook_answer(again, Deny("done before", settled=True))
    assert told["result"] == {"content": [{"type": "text", "text": "done before"}], "isError": False}


@pytest.mark.parametrize(("flag", "status"), [(False, "ok"), (True, "error"), (None, "error")])
def test_a_call_that_does_not_say_how_it_ended_has_failed(flag: object, status: str) -> None:
    said = {"call": "a", "name": "bash", "content": [{"type": "text", "text": "x"}], "isError": flag}
    ended = dialogue().read_hook("after", said).result
    assert ended is not None
    assert (ended.status, ended.value) == (status, "x")


def test_what_pi_says_is_read() -> None:
    def read(**said: Any) -> stream.Event:
        return stream.read(msgspec.json.encode(said))

    message = {"role": "assistant", "content": [{"type": "text", "text": "Hi"}], "stopReason": "stop"}
    assert read(type="message_end", message=message) == stream.Answered("stop", "Hi", "")
    assert read(type="message_end", message={"role": "user"}) == stream.Other()
    assert read(type="agent_settled") == stream.Settled()
    assert read(type="response", command="prompt", success=False, error="no") == stream.NotTaken(
        "prompt", "no"
    )
    asked = read(type="extension_ui_request", id="1", method="input", placeholder="call")
    assert asked == stream.Asked("1", "call")
    assert isinstance(asked, stream.Asked)
    assert msgspec.json.decode(stream.answer(asked, "call"))["value"] == "call"
    assert stream.read(b"not json") == stream.Other()
    assert stream.read(b'{"type":"message_update","message":') == stream.Other()


# policies


@pytest.mark.parametrize(
    ("name", "arguments", "policy"),
    [
        ("read", {"path": "a"}, "safe"),
        ("grep", {}, "safe"),
        ("edit", {}, "verify"),
        ("write", {}, "verify"),
        ("bash", {"command": "ls -la | head"}, "safe"),
        ("bash", {"command": "rm x"}, "never"),
        ("bash", {}, "never"),
        ("codemode", {}, "never"),
    ],
)
def test_a_tool_that_is_not_known_to_look_only_is_never_run_again(
    name: str, arguments: Mapping[str, Any], policy: Policy
) -> None:
    assert policy_of(name, arguments) == policy
    assert Pi().resolve(name, arguments, {"refund": refund}).policy == policy


def test_the_user_s_policies_stand_above_the_table() -> None:
    assert policy_of("mcp__a__get_b", {}, {"mcp__a__get_*": "safe"}) == "safe"
    assert policy_of("edit", {}, {"edit": "verify", "e*": "safe"}) == "verify"


def test_the_application_s_tools_run_in_the_worker() -> None:
    means = Pi().resolve("refund", {}, {"refund": refund})
    assert (means.runs_in, means.policy) == ("worker", "never")


# the end


def test_only_the_last_answer_says_how_a_turn_ended() -> None:
    assert result_of(stream.Answered("stop", "Done.", ""), refused=False).status == "done"
    assert result_of(stream.Answered("length", "Half", ""), refused=False).status == "failed"
    rejected = result_of(stream.Answered("error", "", '400 {"type":"error"}'), refused=True)
    assert (rejected.status, rejected.error[:3]) == ("failed", "400")


@pytest.mark.parametrize("said", ["terminated", "Cannot read properties of undefined (reading '404')"])
def test_what_failed_in_pi_itself_is_tried_in_another_attempt(said: str) -> None:
    with pytest.raises(HarnessError, match=r"terminated|Cannot read"):
        result_of(stream.Answered("error", "", said), refused=False)


@pytest.mark.parametrize("end", [("error", "403 outlast lets nothing through: over"), ("aborted", "")])
def test_what_the_gateway_refused_is_no_end(end: tuple[str, str]) -> None:
    with pytest.raises(HarnessError):
        result_of(stream.Answered(end[0], "", end[1]), refused=True)

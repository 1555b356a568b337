"""How OpenCode is started, and how it is spoken to: the gates are closed, and every start is the same."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast.adapter import MAIN, Deny, Door, HookAsk, Let, ToolResult
from outlast.adapters.opencode import OpenCode
from outlast.adapters.opencode.dialogue import COMPACTION, FOREIGN, UNASKED, OpenCodeDialogue, date_line
from outlast.adapters.opencode.ending import result_of
from outlast.adapters.opencode.launch import (
    PLUGIN,
    Launch,
    ModelName,
    argv,
    config,
    environment,
    lay_out,
    model_name,
)
from outlast.adapters.opencode.names import is_named, message_id, part_id
from outlast.adapters.opencode.permissions import matches, rules_of, session_rules, wants_person
from outlast.adapters.opencode.policies import application_tool, policy_of
from outlast.adapters.opencode.table import table_of
from outlast.adapters.opencode.versions import installed, version_beside
from outlast.errors import HarnessError, HarnessMissing, ModelCallFailed

DOOR = Door("http://127.0.0.1:9", "secret-token", "http://127.0.0.1:9/hooks", "http://127.0.0.1:9/tools")
LAUNCH = Launch(
    Path("/opt/opencode"),
    "1.18.33",
    "n",
    Path("/home/u"),
    DOOR,
    "secret-word",
    ModelName("anthropic", "model-1"),
)
NOON = 1_796_040_000.0
"""On 30 November 2026."""


def test_no_secret_stands_on_the_command_line() -> None:
    assert not any("secret" in word for word in argv(LAUNCH))
    env = environment(LAUNCH, {})
    assert env["OPENCODE_SERVER_PASSWORD"] == "secret-word"
    assert env["OUTLAST_ATTEMPT_TOKEN"] == "secret-token"


def test_what_the_user_configures_stands_below_the_gates() -> None:
    mine = {
        "provider": {"anthropic": {"options": {"baseURL": "http://elsewhere"}}},
        "plugin": ["file:///theirs.js"],
        "share": "auto",
        "permission": {"bash": {"rm *": "deny"}},
        "mcp": {"outlast": {"type": "local"}, "github": {"type": "local"}},
        "theme": "dark",
    }
    made = config(replace(LAUNCH, config=mine))
    assert made["provider"]["anthropic"]["options"] == {
        "baseURL": "http://127.0.0.1:9/v1",
        "apiKey": "secret-token",
    }
    assert made["enabled_providers"] == ["anthropic"]
    assert (made["share"], made["theme"]) == ("disabled", "dark")
    assert made["plugin"] == ["file:///theirs.js", PLUGIN.as_uri()]
    assert made["permission"] == {"bash": {"rm *": "deny"}, "doom_loop": "allow"}
    assert list(made["mcp"]) == ["outlast", "github"]
    assert config(replace(LAUNCH, config={"permission": "deny"}))["permission"]["*"] == "deny"
    assert made["mcp"]["outlast"]["headers"] == {"Authorization": "Bearer secret-token"}


def test_a_provider_is_spoken_to_in_its_dialect_and_keeps_what_the_user_says_of_its_models() -> None:
    mine = {"provider": {"openai-compatible": {"models": {"m": {"limit": {"context": 9}}, "n": {}}}}}
    name = ModelName("openai-compatible", "m")
    made = config(replace(LAUNCH, config=mine, model=name))["provider"]
    assert name.dialect == "openai-chat"
    assert made["openai-compatible"]["npm"] == "@ai-sdk/openai-compatible"
    assert made["openai-compatible"]["models"] == {"m": {"limit": {"context": 9}}, "n": {}}
    assert ModelName("openai", "m").dialect == "openai-responses"


def test_nothing_in_the_environment_leads_elsewhere() -> None:
    inherited = {
        "ANTHROPIC_API_KEY": "k",
        "OPENCODE_PERMISSION": "{}",
        "PATH": "/bin",
        "XDG_DATA_HOME": "/u/d",
    }
    env = environment(LAUNCH, inherited)
    assert "ANTHROPIC_API_KEY" not in env
    assert "OPENCODE_PERMISSION" not in env
    assert (env["PATH"], env["XDG_DATA_HOME"]) == ("/bin", "/home/u/.outlast-opencode/n/data")
    assert "127.0.0.1" in env["NO_PROXY"]


def test_the_model_s_commands_get_no_secret_and_the_user_s_directories() -> None:
    told = json.loads(environment(LAUNCH, {"XDG_DATA_HOME": "/u/d"})["OUTLAST_SHELL_ENV"])
    assert (
        told["OUTLAST_ATTEMPT_TOKEN"]
        == told["OPENCODE_SERVER_PASSWORD"]
        == told["OPENCODE_CONFIG_CONTENT"]
        == ""
    )
    assert (told["XDG_DATA_HOME"], told["XDG_CACHE_HOME"]) == ("/u/d", "")
    assert told["npm_config_fetch_retries"] == ""


def test_nothing_of_an_earlier_attempt_is_left_in_the_database(tmp_path: Path) -> None:
    theirs = tmp_path / ".local" / "share" / "opencode" / "opencode.db"
    theirs.parent.mkdir(parents=True)
    theirs.touch()
    kept = tmp_path / ".outlast-opencode" / "n" / "data" / "opencode"
    (kept / "tool-output").mkdir(parents=True)
    for name in ("opencode.db", "opencode.db-wal", "opencode.db-shm"):
        (kept / name).touch()
    lay_out(replace(LAUNCH, home=tmp_path))
    assert [file.name for file in kept.iterdir()] == ["tool-output"]
    assert theirs.exists()


def test_nothing_is_left_to_install(tmp_path: Path) -> None:
    for _ in range(2):
        lay_out(replace(LAUNCH, home=tmp_path))
    made = tmp_path / ".outlast-opencode" / "n" / "config" / "opencode"
    lock = json.loads((made / "package-lock.json").read_text())
    assert lock["packages"][""]["dependencies"] == {"@opencode-ai/plugin": "1.18.33"}
    assert (made / "node_modules").is_dir()


def test_it_is_told_of_the_models_of_its_provider_alone(tmp_path: Path) -> None:
    made = tmp_path / ".outlast-opencode" / "n" / "models.json"
    lay_out(replace(LAUNCH, home=tmp_path))
    assert not made.exists()
    assert "OPENCODE_MODELS_PATH" not in environment(LAUNCH, {"OPENCODE_MODELS_PATH": "/theirs"})
    told = replace(LAUNCH, home=tmp_path, table='{"anthropic":{}}')
    lay_out(told)
    assert environment(told, {})["OPENCODE_MODELS_PATH"] == str(made)
    assert made.read_text() == '{"anthropic":{}}'


TABLE = (
    'x.OPENCODE_MODELS_PATH,p=()=>({other:{id:"other",env:[],models:{}},anthropic:{id:"anthropic",env:["KEY"],'
    'models:{"model-1":{id:"model-1",name:"A \\"{\\" model: é",tool_call:!0,open:!1,'
    "cost:{input:0.5},limit:{context:1e6}}}}});"
)


def test_the_entry_of_a_provider_is_read_out_of_the_program_word_for_word(tmp_path: Path) -> None:
    program = tmp_path / "opencode"
    program.write_bytes(b"\x7fELF\x00\xff" + TABLE.encode() + b"\x00\xff")
    found = table_of(program, "anthropic")
    assert found is not None
    model = json.loads(found)["anthropic"]["models"]["model-1"]
    assert (model["tool_call"], model["open"], model["limit"]) == (True, False, {"context": 1_000_000})
    assert model["name"] == 'A "{" model: é'
    assert table_of(program, "openai") is None, "it is not there"
    assert table_of(program, "openai-compatible") == "{}", "configuration says all of it"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing of it",
        TABLE.replace("!0", "void 0"),
        TABLE.replace("OPENCODE_MODELS_PATH", ""),
        TABLE[:150],
    ],
)
def test_a_program_that_shows_no_such_table_is_told_nothing(text: str, tmp_path: Path) -> None:
    program = tmp_path / "opencode"
    program.write_text(text)
    assert table_of(program, "anthropic") is None
    assert table_of(tmp_path / "gone", "anthropic") is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", None),
        ("claude-sonnet-4-5", ModelName("anthropic", "claude-sonnet-4-5")),
        ("anthropic/claude-opus", ModelName("anthropic", "claude-opus")),
        ("openai/gpt-5", ModelName("openai", "gpt-5")),
        ("openai-compatible/vendor/model", ModelName("openai-compatible", "vendor/model")),
        ("vendor/model", ModelName("anthropic", "vendor/model")),
    ],
)
def test_a_model_is_named_with_or_without_its_provider(text: str, name: ModelName | None) -> None:
    assert model_name(text) == name


def test_a_message_has_the_same_name_whenever_it_is_asked_for_and_later_ones_sort_behind() -> None:
    assert message_id("in-1", NOON) == message_id("in-1", NOON)
    assert message_id("in-1", NOON) < message_id("in-0", NOON + 1) < message_id("in-2", NOON + 2)
    assert len(message_id("in-1", NOON)) == len("msg_") + 26
    assert part_id("in-1", NOON).startswith("prt_")
    assert is_named(message_id("in-1", NOON), "in-1")
    assert not is_named(message_id("in-2", NOON), "in-1")


def spoken(*tools: str) -> OpenCodeDialogue:
    dialogue = OpenCodeDialogue(tools, NOON)
    dialogue.session = "ses_1"
    return dialogue


TOOLS = {"tools": [{"name": "bash"}, {"name": "outlast_refund"}]}


def test_lanes_are_told_by_the_session_that_asks() -> None:
    dialogue = spoken()
    assert dialogue.lane_of({"x-session-id": "ses_1"}, TOOLS) == MAIN
    assert dialogue.lane_of({"x-session-id": "ses_1"}, {}) == COMPACTION
    child = {"x-session-id": "ses_2", "x-parent-session-id": "ses_1"}
    assert dialogue.lane_of(child, TOOLS) == "agent:ses_2"
    assert dialogue.lane_of({"x-session-id": "ses_3"}, TOOLS) == FOREIGN
    assert dialogue.lane_of({}, TOOLS) == FOREIGN
    assert dialogue.complaint(FOREIGN, {})
    assert OpenCodeDialogue((), NOON).lane_of({"x-session-id": "ses_1"}, TOOLS) == FOREIGN


def test_a_request_without_the_application_s_tools_is_not_let_through() -> None:
    dialogue = spoken("outlast_refund")
    assert dialogue.complaint(MAIN, TOOLS) is None
    assert dialogue.complaint(MAIN, {"tools": [{"function": {"name": "outlast_refund"}}]}) is None
    assert "outlast_refund" in str(dialogue.complaint(MAIN, {"tools": [{"name": "bash"}]}))
    dialogue.over = True
    assert dialogue.complaint(MAIN, TOOLS) == "the turn is over"


def test_the_date_stays_that_of_the_turn_s_beginning() -> None:
    assert date_line(NOON) == "Mon Nov 30 2026"
    dialogue = spoken()
    prompt = "<env>\n  Platform: linux\n  Today's date: {}\n</env>\nToday's date: Fri Jan 01 2027"
    same = {"system": [{"type": "text", "text": prompt.format("Mon Nov 30 2026")}], "model": "m"}
    assert dialogue.strip(same) is same
    later = {"system": [{"type": "text", "text": prompt.format("Tue Dec 01 2026")}], "model": "m"}
    assert dialogue.strip(later) == same
    assert dialogue.strip({"system": prompt.format("Tue Dec 01 2026")}) == {
        "system": prompt.format("Mon Nov 30 2026")
    }
    assert dialogue.strip({"model": "m"}) == {"model": "m"}


@pytest.mark.parametrize("name", ["messages", "input"])
def test_the_date_is_kept_in_every_dialect_and_nobody_s_words_are_changed(name: str) -> None:
    line = "  Today's date: Tue Dec 01 2026"
    kept = line.replace("Tue Dec 01", "Mon Nov 30")
    said = [
        {"role": "system", "content": line},
        {"role": "developer", "content": [{"type": "input_text", "text": line}]},
        {"role": "user", "content": line},
        {"role": "user", "content": [{"type": "text", "text": line}]},
    ]
    told = spoken().strip({name: said, "instructions": line})
    assert told["instructions"] == kept
    assert [str(one["content"]).count("Nov") for one in told[name]] == [1, 1, 0, 0]
    assert told[name][2:] == said[2:]


def test_a_call_over_mcp_is_the_first_of_its_kind_that_a_hook_let_through() -> None:
    dialogue = spoken()
    for call in ("c1", "c2"):
        ask = dialogue.read_hook("before", {"tool": "outlast_refund", "callID": call, "args": {"order": 1}})
        assert dialogue.hook_answer(ask, Let(1, {})) == {"allow": True, "call": call}
    denied = dialogue.read_hook("before", {"tool": "outlast_refund", "callID": "c3", "args": {"order": 1}})
    assert dialogue.hook_answer(denied, Deny("No.")) == {"allow": False, "reason": "No."}
    assert dialogue.hook_answer(denied, None)["allow"] is False
    assert dialogue.call_of("refund", {"order": 2}) == UNASKED
    assert [dialogue.call_of("refund", {"order": 1}) for _ in range(3)] == ["c1", "c2", UNASKED]


def test_hooks_are_understood() -> None:
    dialogue = spoken()
    assert dialogue.read_hook("hello", {}) == HookAsk("hello")
    assert dialogue.read_hook("else", {}) == HookAsk("other")
    done = dialogue.read_hook("after", {"tool": "bash", "callID": "c", "output": "a.txt"})
    assert done == HookAsk("after", "c", "bash", result=ToolResult("ok", "a.txt"))


def test_a_session_asks_about_everything_and_keeps_what_is_denied() -> None:
    own = [
        {"permission": "*", "pattern": "*", "action": "allow"},
        {"permission": "bash", "pattern": "rm *", "action": "deny"},
    ]
    found = rules_of([{"name": "plan", "permission": []}, {"name": "build", "permission": own}], "")
    assert found == own
    rules = session_rules(found)
    assert rules[:3] == [
        {"permission": "*", "pattern": "*", "action": "ask"},
        {"permission": "*", "pattern": "*", "action": "ask"},
        {"permission": "bash", "pattern": "rm *", "action": "deny"},
    ]
    assert {"permission": "question", "pattern": "*", "action": "deny"} in rules
    assert all(rule["action"] != "allow" for rule in rules)


def test_the_last_rule_that_fits_says_whether_a_person_is_wanted() -> None:
    rules = [
        {"permission": "*", "pattern": "*", "action": "allow"},
        {"permission": "read", "pattern": "*.env", "action": "ask"},
        {"permission": "bash", "pattern": "*", "action": "ask"},
        {"permission": "bash", "pattern": "git ?tatus*", "action": "allow"},
    ]
    assert wants_person(rules, "read", ["src/.env"])
    assert not wants_person(rules, "read", ["src/a.py"])
    assert wants_person(rules, "bash", ["git status", "rm x"])
    assert not wants_person(rules, "bash", ["git status -s"])
    assert not wants_person([], "bash", ["ls"])
    assert not matches("a.c", "abc")


@pytest.mark.parametrize(
    ("name", "arguments", "policy"),
    [
        ("read", {"filePath": "x"}, "safe"),
        ("bash", {"command": "ls"}, "safe"),
        ("bash", {"command": "ls && rm x"}, "never"),
        ("bash", {}, "never"),
        ("edit", {}, "verify"),
        ("write", {}, "verify"),
        ("task", {"prompt": "look"}, "safe"),
        ("task", {"prompt": "look", "background": True}, "never"),
        ("webfetch", {"url": "https://example.org"}, "never"),
        ("github_get_issue", {}, "never"),
    ],
)
def test_a_tool_has_the_policy_of_the_table(name: str, arguments: dict[str, Any], policy: str) -> None:
    assert policy_of(name, arguments) == policy


def test_a_user_s_policies_stand_above_the_table() -> None:
    assert policy_of("github_get_issue", {}, {"github_get_*": "safe"}) == "safe"
    assert policy_of("read", {}, {"*": "safe", "read": "never"}) == "never"


def test_the_application_s_tools_are_known_by_their_prefix() -> None:
    assert application_tool("outlast_refund") == "refund"
    assert application_tool("outlast_outlast_wait") == "outlast_wait"
    assert application_tool("outlast_") is None
    assert application_tool("bash") is None


def test_a_sub_agent_is_known_by_its_prompt() -> None:
    resolved = OpenCode().resolve("task", {"prompt": "Look around."}, {})
    assert (resolved.runs_in, resolved.policy, resolved.spawns) == ("harness", "safe", "Look around.")
    gone = OpenCode().resolve("outlast_gone", {}, {})
    assert (gone.runs_in, gone.policy) == ("harness", "never")


def message(error: dict[str, Any] | None = None, role: str = "assistant") -> dict[str, Any]:
    return {"info": {"role": role, "error": error}, "parts": [{"type": "text", "text": "So far."}]}


def test_the_end_of_a_turn_is_its_last_text() -> None:
    assert (result_of(message()).status, result_of(message()).result) == ("done", "So far.")


def test_a_failure_that_may_pass_is_another_attempt_s_to_mend_and_one_that_does_not_ends_the_turn() -> None:
    passing = {"name": "APIError", "data": {"message": "Overloaded", "statusCode": 529}}
    with pytest.raises(ModelCallFailed, match="529"):
        result_of(message(passing))
    final = {"name": "APIError", "data": {"message": "Bad request", "statusCode": 400}}
    assert (result_of(message(final)).status, result_of(message(final)).error) == ("failed", "Bad request")
    for error in (
        {"name": "APIError", "data": {"message": "outlast lets nothing through: over.", "statusCode": 403}},
        {"name": "MessageAbortedError", "data": {"message": "Aborted"}},
    ):
        with pytest.raises(HarnessError):
            result_of(message(error))
    with pytest.raises(HarnessError):
        result_of(message(role="user"))


def test_the_program_is_found_in_its_package_and_tells_its_version(tmp_path: Path) -> None:
    package = tmp_path / "node_modules" / "opencode-linux-x64"
    with pytest.raises(HarnessMissing, match="outlast install opencode"):
        installed(tmp_path)
    (package / "bin").mkdir(parents=True)
    (package / "bin" / "opencode").touch()
    assert installed(tmp_path).warning is not None
    (package / "package.json").write_text('{"version": "1.18.33"}')
    found = installed(tmp_path)
    assert (found.version, found.warning) == ("1.18.33", None)
    assert OpenCode(program=tmp_path).versions() == {"opencode": "1.18.33"}
    assert version_beside(tmp_path / "elsewhere" / "opencode") == "unknown"

"""What a user may give a program that is wrapped, what a session records of it, and what a turn goes on under."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from outlast.adapter import Door
from outlast.adapters.claude_code import terminal as claude
from outlast.adapters.codex import launch as codex_launch
from outlast.adapters.codex import terminal as codex
from outlast.adapters.codex.places import input_id
from outlast.adapters.codex.rollout import has_said
from outlast.adapters.opencode import launch as opencode_launch
from outlast.adapters.opencode import terminal as opencode
from outlast.adapters.opencode.adapter import OpenCode
from outlast.adapters.opencode.ending import typed_end
from outlast.adapters.opencode.names import is_named, message_id
from outlast.adapters.pi import launch as pi_launch
from outlast.adapters.pi import terminal as pi
from outlast.errors import BadInput
from outlast.wrapping import TYPED

DOOR = Door("http://127.0.0.1:1", "secret", "http://127.0.0.1:1/hooks", "http://127.0.0.1:1/tools")


@pytest.mark.parametrize(
    "flags",
    [
        ("resume", "--last"),
        ("--remote", "ws://127.0.0.1:9"),
        ("--dangerously-bypass-hook-trust",),
        ("--oss",),
        ("--profile", "other"),
        ("-c", "model_provider=other"),
        ("-c", "hooks.state={}"),
        ("-c", "approvals_reviewer=auto_review"),
        ("--sandbox", "none"),
        ("Say hello",),
    ],
)
def test_what_would_take_codex_out_of_our_hands_is_refused(flags: Sequence[str]) -> None:
    with pytest.raises(BadInput):
        codex.settings_of(flags)


@pytest.mark.parametrize(
    "flags",
    [
        ("--session", "other.jsonl"),
        ("--continue",),
        ("--mode", "rpc"),
        ("--print",),
        ("--extension", "other.js"),
        ("--api-key", "secret"),
        ("--provider", "google"),
        ("Say hello",),
    ],
)
def test_what_would_take_pi_out_of_our_hands_is_refused(flags: Sequence[str]) -> None:
    with pytest.raises(BadInput):
        pi.settings_of(flags)


@pytest.mark.parametrize(
    "flags",
    [
        ("--session", "ses_other"),
        ("--continue",),
        ("--fork",),
        ("--prompt", "Say hello"),
        ("--port", "4096"),
        ("--hostname", "0.0.0.0"),
        ("--auto",),
        ("--pure",),
        ("--mini",),
        ("attach", "http://127.0.0.1:9"),
        ("--model", "google/gemini-2.5-pro"),
        ("--model",),
        ("../other",),
    ],
)
def test_what_would_take_opencode_out_of_our_hands_is_refused(flags: Sequence[str]) -> None:
    with pytest.raises(BadInput):
        opencode.settings_of(flags)


@pytest.mark.parametrize("flag", claude.TAKEN)
def test_what_would_take_claude_code_out_of_our_hands_is_refused(flag: str) -> None:
    with pytest.raises(BadInput):
        claude.settings_of([flag])


def test_a_session_records_what_its_user_gave_the_program() -> None:
    assert claude.settings_of(["--model=opus", "--verbose"]) == {"model": "opus", "terminal": ["--verbose"]}
    flags = [
        "-m",
        "gpt-5.5",
        "-s",
        "read-only",
        "-c",
        "model_verbosity=low",
        "--enable",
        "x",
        "--no-alt-screen",
    ]
    assert codex.settings_of(flags) == {
        "approval": "on-request",
        "sandbox": "read-only",
        "model": "gpt-5.5",
        "config": {"model_verbosity": "low", "features.x": True},
        "terminal": ["--no-alt-screen"],
    }
    assert pi.settings_of(["--provider", "openai", "--model", "gpt-5.5", "--thinking", "high", "-a"]) == {
        "terminal": True,
        "api": "openai-responses",
        "model": "gpt-5.5",
        "flags": ["--thinking", "high", "-a"],
    }


def test_a_turn_of_codex_goes_on_under_what_its_user_had_set_at_the_terminal() -> None:
    settings = codex.settings_of(["--model", "gpt-5.5"])
    assert codex.terms_of(settings, ()) == codex.Terms("gpt-5.5", "on-request", "workspace-write")
    payload = {"model": "gpt-6", "approval_policy": "never", "sandbox_policy": {"type": "read-only"}}
    records = [{"type": "turn_context", "payload": payload}]
    assert codex.terms_of(settings, records) == codex.Terms("gpt-6", "never", "read-only")
    assert codex.terms_of({}, ()) == codex.Terms("", codex_launch.APPROVAL, codex_launch.SANDBOX)


def test_a_prompt_that_was_typed_into_codex_is_found_by_the_turn_that_it_began() -> None:
    said = {
        "type": "item_completed",
        "turn_id": "t1",
        "item": {"type": "UserMessage", "client_id": "its own"},
    }
    records = [{"type": "event_msg", "payload": said}]
    assert has_said(records, input_id("thread", TYPED + "t1"))
    assert not has_said(records, input_id("thread", TYPED + "t2"))


def test_what_codex_asks_before_a_prompt_stands_at_the_terminal_only(tmp_path: Path) -> None:
    headless = codex_launch.Launch(tmp_path / "codex", "thread", tmp_path, DOOR)
    typed = codex_launch.Launch(
        tmp_path / "codex", "thread", tmp_path, DOOR, typed_url="http://127.0.0.1:2/t"
    )
    assert "UserPromptSubmit" not in codex_launch.hooks(headless)["hooks"]
    (group,) = codex_launch.hooks(typed)["hooks"]["UserPromptSubmit"]
    assert group["hooks"][0]["command"].startswith(f"{codex_launch.HOOKS_URL}=http://127.0.0.1:2/t exec ")
    assert len(codex_launch.hook_keys(typed)) == len(codex_launch.hooks(typed)["hooks"])
    assert "secret" not in json.dumps([codex_launch.hooks(typed), codex.argv(typed, [])])


def test_what_codex_has_told_its_user_once_it_does_not_tell_again(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "config.toml").write_text('model = "x"\n[notice.model_migrations]\n"a" = "b"\n')
    started = codex_launch.Launch(tmp_path / "codex", "thread", tmp_path, DOOR)
    told = codex.files(started, {"CODEX_HOME": str(own)})["config.toml"]
    assert told.startswith('notice = {"model_migrations" = {"a" = "b"}}\n')
    assert codex.files(started, {"HOME": str(tmp_path)}) == codex_launch.files(started)


def test_a_turn_of_pi_goes_on_with_what_its_user_had_chosen_at_the_terminal(tmp_path: Path) -> None:
    started = pi_launch.Launch(tmp_path, tmp_path, "uuid", tmp_path, DOOR, model="first", flags=["-a"])
    lines = [
        json.dumps({"type": "session"}),
        json.dumps({"type": "model_change", "provider": "anthropic", "modelId": "second"}),
        json.dumps({"type": "model_change", "provider": "google", "modelId": "third"}),
        json.dumps({"type": "thinking_level_change", "thinkingLevel": "high"}),
    ]
    chosen = pi.as_chosen(started, lines)
    assert (chosen.model, chosen.flags) == ("second", ["-a", "--thinking", "high"])
    assert pi.as_chosen(started, []) == started


def test_what_a_session_of_opencode_records_says_which_model_is_asked_and_how() -> None:
    adapter = OpenCode()
    settings = adapter.terminal_settings(["-m", "openai/gpt-5", "--agent=plan"])
    assert settings == {"terminal": True, "model": "openai/gpt-5", "agent": "plan"}
    assert adapter.dialect(settings) == "openai-responses"
    assert adapter.dialect(adapter.terminal_settings([])) == "anthropic"
    assert opencode.config_of(settings) == {"default_agent": "plan"}
    assert opencode.config_of({"agent": "plan"}) == {}, "without a terminal each prompt names it"


def test_what_was_typed_into_opencode_keeps_its_own_name() -> None:
    assert message_id(f"{TYPED}msg_1", 7.0) == "msg_1"
    assert is_named("msg_1", f"{TYPED}msg_1")
    assert not is_named("msg_2", f"{TYPED}msg_1")
    assert is_named(message_id("an input", 7.0), "an input")


def test_the_screen_of_opencode_holds_nothing_that_opens_the_gateway(tmp_path: Path) -> None:
    started = opencode_launch.Launch(
        program=tmp_path / "opencode",
        version="1",
        name="name",
        home=tmp_path,
        door=DOOR,
        password="its password",
        offers=False,
        typed_url="http://127.0.0.1:2/t",
    )
    screen = opencode_launch.screen_environment(started, {"TERM": "xterm"})
    assert screen["OPENCODE_SERVER_PASSWORD"] == "its password"
    assert DOOR.token not in json.dumps(screen)
    argv = opencode_launch.screen_argv(started, "http://127.0.0.1:3", "ses_1", tmp_path)
    assert "its password" not in json.dumps(argv)
    serves = opencode_launch.environment(started, {})
    assert serves["OUTLAST_TERMINAL_URL"] == started.typed_url
    assert not json.loads(serves["OPENCODE_CONFIG_CONTENT"])["mcp"], (
        "what is typed has no tools of an application"
    )
    assert not json.loads(serves["OUTLAST_SHELL_ENV"])["OUTLAST_TERMINAL_URL"]


def test_how_a_turn_that_was_typed_into_opencode_has_ended() -> None:
    parts = [{"type": "text", "text": "Done."}, {"type": "tool"}]
    aborted = {"role": "assistant", "error": {"name": "MessageAbortedError", "data": {"message": "Aborted"}}}
    failed = {"role": "assistant", "error": {"name": "APIError", "data": {"message": "no credit"}}}
    assert typed_end({"info": {"role": "assistant", "finish": "stop"}, "parts": parts}, "").result == "Done."
    cut = typed_end({"info": {"role": "assistant"}, "parts": parts}, "")
    assert (cut.status, cut.result) == ("failed", "Done."), "it was stopped before it had ended"
    assert "interrupted at the terminal" in typed_end({"info": aborted, "parts": []}, "").error
    assert typed_end({"info": aborted, "parts": []}, "overloaded").error == "overloaded"
    assert typed_end({"info": failed, "parts": []}, "").error == "no credit"
    assert typed_end({"info": {"role": "user"}, "parts": []}, "").status == "failed"

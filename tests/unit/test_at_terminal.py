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

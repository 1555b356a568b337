"""How Codex speaks: what its requests and hooks mean, what its end means, and how it is started."""

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from outlast.adapter import MAIN, Deny, Door, HookAsk, Let
from outlast.adapters.codex import Codex, launch
from outlast.adapters.codex.dialogue import COMPACTION, FOREIGN, CodexDialogue
from outlast.adapters.codex.driver import check_gates
from outlast.adapters.codex.ending import result_of
from outlast.adapters.codex.policies import policy_of
from outlast.adapters.codex.versions import Installed, version_of
from outlast.errors import HarnessError, ModelCallFailed
from outlast.gateway.hooks import generic_deny
from outlast.tracing import COLLECTOR_KEYS

HOOK = Path(launch.__file__).with_name("hook.sh")


async def recorded() -> None:
    """Nothing is written here."""


def dialogue(*tools: str) -> CodexDialogue:
    return CodexDialogue("t", tools, recorded)


def message(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def lane(thread: str, kind: str) -> str:
    about = json.dumps({"request_kind": kind})
    return dialogue().lane_of({"thread-id": thread, "x-codex-turn-metadata": about}, {})


def test_a_request_belongs_to_the_turn_to_a_compaction_or_to_nobody() -> None:
    assert lane("t", "turn") == MAIN
    assert lane("t", "compaction") == COMPACTION
    assert lane("u", "turn") == FOREIGN
    assert dialogue().complaint(FOREIGN, {}) is not None


def test_a_request_without_the_applications_tools_does_not_go_upstream() -> None:
    listed = [{"type": "function", "name": "refund"}]
    assert dialogue("refund").complaint(MAIN, {"tools": []}) is not None
    assert dialogue("refund").complaint(MAIN, {"tools": listed}) is None
    assert (
        dialogue("refund").complaint(MAIN, {"input": [{"type": "additional_tools", "tools": listed}]}) is None
    )
    assert dialogue("refund").complaint(COMPACTION, {"tools": []}) is None


def test_where_codex_works_is_told_at_the_start_of_a_turn_and_not_in_its_middle() -> None:
    place, go = message("user", "<environment_context>x</environment_context>"), message("user", "go")
    begins = {"input": [message("developer", "you are"), place, go]}
    assert dialogue().strip(begins) is begins
    next_turn = {"input": [go, message("assistant", "done"), place, message("user", "and on")]}
    assert dialogue().strip(next_turn) is next_turn
    call, output = {"type": "function_call", "call_id": "a"}, {"type": "function_call_output", "call_id": "a"}
    assert dialogue().strip({"input": [go, call, output, place]})["input"] == [go, call, output]
    resumed = {"input": [go, call, output, place, message("assistant", "done"), message("user", "and on")]}
    assert place not in dialogue().strip(resumed)["input"]


@pytest.mark.parametrize(
    ("name", "given", "asked", "arguments"),
    [
        ("Bash", {"command": "ls"}, "exec_command", {"cmd": "ls"}),
        ("apply_patch", {"command": "*** Begin"}, "apply_patch", {"input": "*** Begin"}),
        ("view_image", {"path": "x.png"}, "view_image", {"path": "x.png"}),
    ],
)
def test_a_hook_is_read_in_the_words_of_the_model(
    name: str, given: Mapping[str, Any], asked: str, arguments: Mapping[str, Any]
) -> None:
    payload = {"tool_name": name, "tool_input": given, "tool_use_id": "c"}
    assert dialogue().read_hook("before", payload) == HookAsk("before", "c", asked, arguments)


@contextmanager
def gateway(answer: bytes, seen: list[tuple[str, str, bytes]]) -> Generator[str]:
    """A server that answers every hook alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, self.headers["Authorization"], body))
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as its base calls it
            """Nothing is logged."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/outlast/hooks"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run_hook(
    url: str | None, body: str = "{}", environ: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    started = launch.Launch(
        Path("codex"), "t", Path("/home"), Door("", "", "", ""), bash=shutil.which("bash") or "bash"
    )
    (handler,) = launch.hooks(started)["hooks"]["PreToolUse"][0]["hooks"]
    env = {"PATH": "/usr/bin:/bin", launch.TOKEN: "secret"} | ({} if url is None else {launch.HOOKS_URL: url})
    return subprocess.run(
        ["/bin/sh", "-c", handler["command"]],
        input=body, env={**env, **(environ or {})}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def stops(done: "subprocess.CompletedProcess[str]") -> bool:
    """Whether Codex would not run the tool: of everything else it does."""
    return done.returncode == 2 and bool(done.stderr.strip())


@contextmanager
def hanging_up() -> Generator[str]:
    """Somebody who takes a connection and closes it at once; yields the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/outlast/hooks"
        listener.shutdown(socket.SHUT_RDWR)


def test_whoever_hangs_up_on_the_hook_lets_nothing_run() -> None:
    with hanging_up() as url:
        assert stops(run_hook(url, json.dumps({"command": "x" * 8_000_000})))


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_a_refusal_without_words_is_a_refusal(text: str) -> None:
    asked = HookAsk("before", "c")
    assert dialogue().hook_answer(asked, Deny(text))["reason"].strip()
    assert stops(answered({"outlast": "deny", "reason": text}))


@pytest.mark.parametrize(
    "environ",
    [
        {"POSIXLY_CORRECT": "1"},
        {"SHELLOPTS": "errexit:nounset:noexec"},
        {"BASH_ENV": "leave.sh"},
        {"BASH_FUNC_deny%%": "() { exit 0; }", "BASH_FUNC_exit%%": "() { builtin exit 0; }"},
    ],
)
def test_nothing_in_the_environment_makes_the_hook_say_yes(
    environ: Mapping[str, str], tmp_path: Path
) -> None:
    leave = tmp_path / "leave.sh"
    leave.write_text("exit 0")
    environ = {name: str(leave) if name == "BASH_ENV" else value for name, value in environ.items()}
    assert stops(run_hook("http://127.0.0.1:1/outlast/hooks", environ=environ))
    with gateway(b'{"outlast":"let"}', []) as url:
        assert run_hook(url, environ=environ).returncode == 0


def answered(answer: Mapping[str, Any]) -> "subprocess.CompletedProcess[str]":
    with gateway(json.dumps(answer, separators=(",", ":")).encode(), []) as url:
        return run_hook(url)


def test_the_hook_hands_on_its_input_and_lets_run_what_may() -> None:
    seen: list[tuple[str, str, bytes]] = []
    body = json.dumps({"tool_input": {"command": "echo 'é' \\ \"x\"\n" * 3000}}, ensure_ascii=False)
    yes = dialogue().hook_answer(HookAsk("before", "c"), Let(1, {}))
    with gateway(json.dumps(yes, separators=(",", ":")).encode(), seen) as url:
        done = run_hook(url, body)
    assert (done.returncode, done.stderr) == (0, "")
    assert seen == [("/outlast/hooks/before", "Bearer secret", body.encode())]


@pytest.mark.parametrize(
    "answer",
    [
        dialogue().hook_answer(HookAsk("before", "c"), Deny('It says "no"\nat all')),
        dialogue().hook_answer(HookAsk("before", "c"), None),
        generic_deny("The turn is over."),
        {},
        {"outlast": "let", "more": 1},
    ],
)
def test_the_hook_stops_what_may_not_run_and_says_why(answer: Mapping[str, Any]) -> None:
    done = answered(answer)
    assert done.returncode == 2
    assert done.stderr.strip()


def test_the_hook_says_the_reason_that_it_was_given() -> None:
    assert answered(dialogue().hook_answer(HookAsk("before", "c"), Deny("It ran."))).stderr == "It ran.\n"
    assert answered(generic_deny("The turn is over.")).stderr == "The turn is over.\n"


def test_the_hook_stops_everything_when_nobody_is_there() -> None:
    for url in (None, "http://127.0.0.1:1/outlast/hooks"):
        done = run_hook(url)
        assert done.returncode == 2
        assert done.stderr.strip()


def test_the_end_of_a_turn_is_its_last_words() -> None:
    items = [{"type": "agentMessage", "text": "first"}, {"type": "agentMessage", "text": "last"}]
    assert result_of({"status": "completed", "items": items}, "said").result == "last"
    assert result_of({"status": "completed", "items": []}, "said").result == "said"


@pytest.mark.parametrize(
    "info",
    [
        "serverOverloaded",
        "rateLimitExceeded",
        {"responseStreamDisconnected": {"httpStatusCode": None}},
        {"httpConnectionFailed": {"httpStatusCode": 503}},
    ],
)
def test_a_failure_that_may_pass_is_tried_again_by_another_attempt(info: object) -> None:
    with pytest.raises(ModelCallFailed):
        result_of({"status": "failed", "error": {"message": "no", "codexErrorInfo": info}}, "")


def test_an_answer_that_broke_off_is_asked_for_again() -> None:
    error = {"message": "stream disconnected before completion: network error", "codexErrorInfo": "other"}
    with pytest.raises(ModelCallFailed, match="half an answer"):
        result_of({"status": "failed", "error": error}, "")


def test_a_failure_that_will_not_pass_ends_the_turn() -> None:
    ended = result_of({"status": "failed", "error": {"message": "no", "codexErrorInfo": "badRequest"}}, "")
    assert (ended.status, ended.error) == ("failed", "no")


def test_what_the_gateway_refuses_is_no_end() -> None:
    for turn in (
        {
            "status": "failed",
            "error": {"message": "outlast lets nothing through: x", "codexErrorInfo": "badRequest"},
        },
        {"status": "interrupted"},
    ):
        with pytest.raises(HarnessError):
            result_of(turn, "")


@pytest.mark.parametrize(
    ("name", "arguments", "policy"),
    [
        ("exec_command", {"cmd": "git status"}, "safe"),
        ("exec_command", {"cmd": "git push"}, "verify"),
        ("exec_command", {"cmd": "git push", "shell": "fish"}, "never"),
        ("exec_command", {"cmd": "npm publish"}, "never"),
        ("exec_command", {"cmd": "ls", "shell": "/tmp/odd"}, "never"),
        ("exec_command", {"arguments": "{"}, "never"),
        ("write_stdin", {"session_id": 1, "chars": "y\n"}, "never"),
        ("apply_patch", {"input": "*** Begin Patch"}, "verify"),
        ("view_image", {"path": "x.png"}, "safe"),
        ("nobody_knows", {}, "never"),
    ],
)
def test_each_tool_has_its_policy(name: str, arguments: Mapping[str, Any], policy: str) -> None:
    assert policy_of(name, arguments) == policy


def test_a_user_has_the_last_word_on_a_policy() -> None:
    assert policy_of("mcp__github__get_issue", {}, {"mcp__github__get_*": "safe"}) == "safe"
    assert Codex(policies={"apply_patch": "safe"}).resolve("apply_patch", {}, {}).policy == "safe"


def launched(tmp_path: Path, port: int = 1) -> launch.Launch:
    base = f"http://127.0.0.1:{port}"
    return launch.Launch(
        Path("/codex"), "t", tmp_path, Door(base, "secret", f"{base}/h", f"{base}/t"), model="m"
    )


def test_nothing_that_differs_between_attempts_stands_in_what_requests_are_made_of(tmp_path: Path) -> None:
    one, other = launched(tmp_path, 1), launched(tmp_path, 2)
    assert launch.thread_params(one, tmp_path) == launch.thread_params(other, tmp_path)
    assert launch.hooks(one) == launch.hooks(other)
    assert launch.hook_keys(one) == launch.hook_keys(other)


def test_what_the_user_configures_stands_below_the_gates(tmp_path: Path) -> None:
    mine: dict[str, Any] = {
        "model_reasoning_effort": "low",
        "features.hooks": False,
        "features": {"goals": True, "web_search": True},
        "agents.enabled": True,
        "hooks": {"PreToolUse": []},
        "hooks.state": {},
        "model_provider": "openai",
        "model_providers.outlast.base_url": "http://elsewhere",
        "shell_environment_policy": {"inherit": "core"},
        "shell_environment_policy.exclude": ["MINE"],
        "approval_policy": "never",
        "approvals_reviewer": "auto_review",
        "mcp_servers": {"github": {"command": "g", "env": {}}},
    }
    told = launch.thread_params(replace(launched(tmp_path), config=mine), tmp_path)["config"]
    off = dict.fromkeys(launch.OFF, False)
    assert told == {
        "model_reasoning_effort": "low",
        "features": {"web_search": True, **off, "hooks": True},
        "agents": {"enabled": False},
        "shell_environment_policy": {"inherit": "core", "exclude": ["MINE", "OUTLAST_*", *COLLECTOR_KEYS]},
        "mcp_servers": {"github": {"command": "g", "env": {}}},
    }


@pytest.mark.parametrize(
    "other",
    [{"modelProvider": "openai"}, {"approvalPolicy": "never"}, {"approvalsReviewer": "auto_review"}],
)
def test_a_thread_that_would_go_round_a_gate_goes_nowhere(other: Mapping[str, str]) -> None:
    ours = {"modelProvider": launch.PROVIDER, "approvalPolicy": launch.APPROVAL}
    check_gates(ours, launch.APPROVAL)
    check_gates({**ours, "approvalsReviewer": "user"}, launch.APPROVAL)
    with pytest.raises(HarnessError, match=next(iter(other.values()))):
        check_gates({**ours, **other}, launch.APPROVAL)


def test_the_token_stands_in_the_environment_only(tmp_path: Path) -> None:
    started = launched(tmp_path)
    assert "secret" not in " ".join([*launch.argv(started), *launch.files(started).values()])
    inherited = {"OPENAI_API_KEY": "theirs", "CODEX_HOME": "/theirs", "PATH": "/bin"}
    env = launch.environment(started, inherited)
    assert (env[launch.TOKEN], env["CODEX_HOME"], env["PATH"]) == (
        "secret",
        f"{tmp_path}/.outlast-codex/{started.thread}",
        "/bin",
    )
    assert "OPENAI_API_KEY" not in env


def test_the_version_is_read_from_the_package(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "codex"
    assert version_of(program) == "unknown"
    (tmp_path / "codex-package.json").write_text('{"version": "0.171.0"}')
    assert version_of(program) == "0.171.0"
    assert Installed(program, "0.171.0").warning is None
    assert "999" in str(Installed(program, "999").warning)

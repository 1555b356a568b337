"""How Claude Code is started: the gates are closed, and a resume differs from a first start in nothing but the name."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from outlast.adapter import Door
from outlast.adapters.claude_code import hello as hello_program
from outlast.adapters.claude_code.hello import TOKEN_VARIABLE, hello
from outlast.adapters.claude_code.launch import (
    DISALLOWED,
    SWITCHES,
    Launch,
    argv,
    environment,
    mcp_config,
    prompt_uuid,
    session_uuid,
    settings,
)
from outlast.adapters.program import past_proxies

DOOR = Door("http://127.0.0.1:9", "secret-token", "http://127.0.0.1:9/hooks", "http://127.0.0.1:9/tools")
SESSION = session_uuid("default", "ticket-1")
LAUNCH = Launch(
    Path("/opt/claude"), SESSION, Path("/home/u"), DOOR, model="model-1", flags=("--effort", "high")
)


def test_a_resume_has_the_flags_of_the_first_start() -> None:
    first, again = argv(LAUNCH, resume=False), argv(LAUNCH, resume=True)
    assert first[-2:] == ["--session-id", SESSION]
    assert again[-2:] == ["--resume", SESSION]
    assert first[:-2] == again[:-2]


def test_every_call_of_every_tool_asks_and_nobody_can_switch_the_hooks_off() -> None:
    given = settings(LAUNCH)
    assert given["disableAllHooks"] is False
    assert given["permissions"] == {"ask": ["*"], "defaultMode": "default"}
    before = given["hooks"]["PreToolUse"][0]
    assert before["matcher"] == "*"
    assert before["hooks"][0]["onFailure"] == "block"
    assert set(given["hooks"]) == {"SessionStart", "PreToolUse", "PostToolUse", "PostToolUseFailure"}
    line = argv(LAUNCH, resume=False)
    assert line[line.index("--permission-prompt-tool") + 1] == "stdio"
    assert line[line.index("--permission-mode") + 1] == "default"
    assert "--dangerously-skip-permissions" not in line
    assert "--include-hook-events" in line, (
        "a person whom a hook of the user's wants asked would be passed over"
    )


def test_a_project_cannot_lead_calls_past_the_gateway() -> None:
    pinned = settings(LAUNCH)["env"]
    assert pinned["ANTHROPIC_BASE_URL"] == DOOR.base_url
    assert pinned["CLAUDE_CODE_USE_BEDROCK"] == ""
    assert "127.0.0.1" in pinned["NO_PROXY"]
    assert pinned.items() >= SWITCHES.items()


def test_whom_the_user_reaches_past_a_proxy_the_tools_reach_so_too() -> None:
    direct = past_proxies({"NO_PROXY": "git.corp.example"})
    pinned = settings(replace(LAUNCH, direct=direct))["env"]
    assert pinned["NO_PROXY"] == pinned["no_proxy"] == "git.corp.example,127.0.0.1,localhost,::1"


def test_the_token_stands_nowhere_on_the_command_line() -> None:
    headers = [
        settings(LAUNCH)["hooks"][name][0]["hooks"][0]["headers"] for name in ("PreToolUse", "PostToolUse")
    ]
    assert all(header == {"Authorization": f"Bearer ${TOKEN_VARIABLE}"} for header in headers)
    assert DOOR.token not in json.dumps(mcp_config(LAUNCH))
    assert all(DOOR.token not in word for word in argv(LAUNCH, resume=False))


def test_the_hello_is_sent_by_a_python_that_reads_nothing_of_the_project() -> None:
    handler = settings(LAUNCH)["hooks"]["SessionStart"][0]["hooks"][0]
    assert handler["args"][:2] == ["-I", "-S"]
    assert Path(handler["args"][2]) == Path(hello_program.__file__)
    assert handler["args"][3] == f"{DOOR.hooks_url}/hello"


def test_the_environment_keeps_what_is_the_users_and_drops_what_is_not() -> None:
    inherited = {
        "PATH": "/bin",
        "GOPATH": "/go",
        "HOME": "/root",
        "ANTHROPIC_API_KEY": "real-key",
        "CLAUDE_CODE_SIMPLE": "1",
        "CLAUDECODE": "1",
        "OUTLAST_WORLD": "postgres://secret",
        "HTTPS_PROXY": "http://proxy:3128",
        "NO_PROXY": "corp.example,localhost",
    }
    env = environment(LAUNCH, inherited, go_on=False)
    assert (env["PATH"], env["GOPATH"], env["HTTPS_PROXY"]) == ("/bin", "/go", "http://proxy:3128")
    assert env["HOME"] == "/home/u"
    assert env["ANTHROPIC_API_KEY"] == ""
    assert env[TOKEN_VARIABLE] == DOOR.token
    assert "OUTLAST_WORLD" not in env
    assert "CLAUDECODE" not in env
    assert env["CLAUDE_CODE_SIMPLE"] == ""
    assert env["NO_PROXY"] == "corp.example,127.0.0.1,localhost,::1"
    assert "real-key" not in json.dumps(env)


def test_only_a_turn_under_way_goes_on_without_a_word() -> None:
    names = {name for name in environment(LAUNCH, {}, go_on=True) if "RESUME" in name}
    assert len(names) == 3
    assert not any("RESUME" in name for name in environment(LAUNCH, {}, go_on=False))


def test_tools_that_outlive_a_turn_or_wait_for_a_person_are_taken_away() -> None:
    assert {"AskUserQuestion", "Monitor", "CronCreate", "Workflow", "SendMessage"} <= set(DISALLOWED)
    assert not {"Bash", "Read", "Edit", "Write", "Agent", "Skill"} & set(DISALLOWED)


def test_without_tools_of_the_application_there_is_no_server() -> None:
    without = Launch(Path("/opt/claude"), SESSION, Path("/home/u"), DOOR, tools=False)
    assert "--mcp-config" not in argv(without, resume=False)


def test_names_are_the_same_on_every_machine_and_differ_by_tenant() -> None:
    assert session_uuid("default", "a") == session_uuid("default", "a")
    assert session_uuid("default", "a") != session_uuid("other", "a")
    assert prompt_uuid(SESSION, "in-1") != prompt_uuid(SESSION, "in-2")


class _Listener(BaseHTTPRequestHandler):
    heard: list[tuple[str, str | None]]
    status: int

    def do_POST(self) -> None:
        self.heard.append((self.path, self.headers.get("Authorization")))
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - theirs
        pass


@pytest.fixture(params=[200, 403])
def listener(request: pytest.FixtureRequest) -> Iterator[tuple[HTTPServer, type[_Listener]]]:
    handler = type("Handler", (_Listener,), {"heard": [], "status": request.param})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server, handler
        server.shutdown()
        thread.join()


def test_the_hello_says_whether_it_was_heard(listener: tuple[HTTPServer, type[_Listener]]) -> None:
    server, handler = listener
    heard = hello(f"http://127.0.0.1:{server.server_port}/hooks/hello", "tok")
    assert heard is (handler.status == 200)
    assert handler.heard == [("/hooks/hello", "Bearer tok")]

"""How harnesses begin a shell for a call, and how they say what came of it."""

import pytest

from outlast.adapters.claude_code.commands import shell_use as claude_code
from outlast.adapters.codex.commands import shell_use as codex
from outlast.adapters.commands import TEXT_LIMIT, seconds_of
from outlast.adapters.opencode.commands import shell_use as opencode
from outlast.adapters.pi.commands import shell_use as pi
from outlast.calls import ShellUse, ToolResult
from outlast.workspace import Ran

SNAPSHOT = "source /home/snapshot.sh 2>/dev/null || true && "
CWD = " && pwd -P >| /tmp/claude-1-cwd"


@pytest.mark.parametrize(
    ("command", "script", "runs"),
    [
        ("ls", f"{SNAPSHOT}eval ls < /dev/null{CWD}", True),
        ("ls -l 'a b'", f"{SNAPSHOT}eval 'ls -l '\\''a b'\\''' < /dev/null{CWD}", True),
        ("ls\npwd", f"{SNAPSHOT}eval 'ls\npwd'{CWD}", True),
        ("a | b", f"{SNAPSHOT}eval 'a < /dev/null | b'{CWD}", True),
        ("ls", f"{SNAPSHOT}eval 'ls -l' < /dev/null{CWD}", False),
        ("env", "env", False),
        ("ls", "ls; SNAPSHOT_FILE=x", False),
        ("eval ls", f"eval ls{CWD}", False),
    ],
)
def test_claude_code_runs_a_call_by_its_own_script(command: str, script: str, runs: bool) -> None:  # noqa: FBT001
    use = claude_code("Bash", {"command": command})
    assert use is not None
    assert use.runs(["-c", script]) is runs
    assert not use.runs([])


@pytest.mark.parametrize(
    ("use", "flag"), [(codex("exec_command", {"cmd": "ls"}), "-lc"), (pi("bash", {"command": "ls"}), "-c")]
)
def test_others_give_the_command_as_it_is(use: ShellUse | None, flag: str) -> None:
    assert use is not None
    runs = use.runs
    assert runs([flag, "ls"])
    for words in ([], ["ls"], [flag], [flag, "ls "], [flag, "ls", "x"], ["-i", "ls"]):
        assert not runs(words)


def test_what_has_no_shell_of_its_call_is_no_command() -> None:
    assert claude_code("Bash", {"command": "ls", "run_in_background": True}) is None
    assert claude_code("Read", {"command": "ls"}) is None
    assert claude_code("Bash", {}) is None
    assert codex("exec_command", {"cmd": "ls", "tty": True}) is None
    assert codex("exec_command", {"cmd": "ls", "shell": "/bin/sh"}) is None
    assert codex("write_stdin", {"cmd": "ls"}) is None
    assert opencode("read", {"command": "ls"}) is None
    assert pi("bash", {"command": 7}) is None


FINE = Ran(0, "out\n", "err\n")
BAD = Ran(3, "out\n", "err\n")
SILENT = Ran(0, "", "")
LATE = Ran(124, "out\n", "", timed_out=True)


@pytest.mark.parametrize(
    ("ran", "status", "said"),
    [
        (FINE, "ok", {"stdout": "out\nerr", "stderr": "", "interrupted": False, "isImage": False}),
        (SILENT, "ok", {"stdout": "", "stderr": "", "interrupted": False, "isImage": False}),
        (BAD, "error", "Exit code 3\nout\nerr"),
        (LATE, "error", "Exit code 143\nCommand timed out after 2s\nout"),
    ],
)
def test_claude_code_says(ran: Ran, status: str, said: object) -> None:
    use = claude_code("Bash", {"command": "x", "timeout": 2000})
    assert use is not None
    assert use.timeout_s == 2
    result = use.told(ran)
    assert (result.status, result.value) == (status, said)


@pytest.mark.parametrize(
    ("use", "ran", "status", "said"),
    [
        (pi("bash", {"command": "x"}), FINE, "ok", "out\nerr\n"),
        (pi("bash", {"command": "x"}), SILENT, "ok", "(no output)"),
        (pi("bash", {"command": "x"}), BAD, "error", "out\nerr\n\n\nCommand exited with code 3"),
        (
            pi("bash", {"command": "x", "timeout": 5}),
            LATE,
            "error",
            "out\n\n\nCommand timed out after 5 seconds",
        ),
        (opencode("bash", {"command": "x"}), BAD, "ok", "out\nerr\n"),
        (opencode("bash", {"command": "x"}), SILENT, "ok", "(no output)"),
        (codex("exec_command", {"cmd": "x"}), BAD, "ok", "Process exited with code 3\nOutput:\nout\nerr\n"),
    ],
)
def test_others_say(use: ShellUse | None, ran: Ran, status: str, said: object) -> None:
    assert use is not None
    result = use.told(ran)
    assert (result.status, result.value) == (status, said)


def test_what_is_long_has_its_middle_left_out() -> None:
    use = pi("bash", {"command": "x"})
    assert use is not None
    said = str(use.told(Ran(0, "a" * 100_000, "b")).value)
    assert len(said) < TEXT_LIMIT + 100
    assert said.startswith("aaa")
    assert said.endswith("b")


@pytest.mark.parametrize("given", [None, 0, -1, True, "5", 1e300])
def test_a_time_that_is_none_is_not_taken_for_one(given: object) -> None:
    assert seconds_of({"timeout": given}, "timeout") == 0


def test_codex_goes_on_with_a_command_by_its_number() -> None:
    use = codex("exec_command", {"cmd": "ls"})
    assert use is not None
    assert use.goes_on is not None
    running = "Chunk ID: a\nWall time: 1.0 seconds\nProcess running with session ID 41\nOutput:\n"
    assert use.goes_on(ToolResult("ok", running)) == "41"
    for said in ("Process exited with code 0\nOutput:\nrunning with session ID 41", {"a": 1}, None):
        assert use.goes_on(ToolResult("ok", said)) == ""


@pytest.mark.parametrize(
    ("arguments", "follows"),
    [
        ({"session_id": 41, "chars": ""}, "41"),
        ({"session_id": 41}, "41"),
        ({"session_id": 41, "chars": "y\n"}, None),
        ({"session_id": "41"}, None),
        ({}, None),
    ],
)
def test_what_types_nothing_waits_for_a_command(arguments: dict[str, object], follows: str | None) -> None:
    use = codex("write_stdin", arguments)
    assert (None if use is None else use.follows) == follows
    assert use is None or not use.runs(["-lc", "ls"])

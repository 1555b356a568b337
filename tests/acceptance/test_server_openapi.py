"""The server's OpenAPI is true: schemathesis asks the real server everything that it allows, and what it does not."""

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.acceptance.counter import script
from tests.acceptance.served import Server, opened_server

STREAMS: Final = "text/event-stream"
WAITED_S: Final = 0.2
"""In place of what a request may wait for: it would, again and again."""
pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server() -> Generator[Server]:
    with opened_server("tests.acceptance.stall:shop", environ={"OUTLAST_REQUESTS_PER_S": "0"}) as opened:
        counter = opened.counter
        for name in ("done", "asked", "waits"):
            opened.post("/v1/sessions", {"session": name, "agent": "shop", "labels": {"team": "shop"}})
        steps = [
            {"do": "tool", "name": "plan", "arguments": {"steps": ["look"]}},
            {"do": "tool", "name": "write", "arguments": {"path": "a.txt", "content": "a\n"}},
            {"do": "model", "text": "Done."},
        ]
        opened.post("/v1/sessions/done/turns", {"text": script(*steps), "id": "p1"})
        publish = {"do": "tool", "name": "publish", "arguments": {"command": "now"}}
        opened.post("/v1/sessions/asked/turns", {"text": script(publish), "id": "p1"})
        counter.outlast("work", "--once", "tests.acceptance.stall:shop")
        assert opened.get("/v1/sessions/done/turns/1")["status"] == "done"
        assert opened.get("/v1/sessions/asked/awaited")["awaits"][0]["rulings"] == ["allow", "deny"]
        yield opened


def _document(server: Server, sessions: Sequence[str]) -> dict[str, Any]:
    """The server's document, its sessions named as some that are there, and nothing that waits for long."""
    document = json.loads(server.api.get("/openapi.json").text)
    for methods in document["paths"].values():
        for one in methods.values():
            for parameter in one["parameters"]:
                if sessions and parameter["in"] == "path" and parameter["name"] == "session":
                    parameter["schema"] = {"enum": list(sessions)}
                elif parameter["name"] == "wait_s":
                    parameter["schema"]["maximum"] = WAITED_S
    edit = document["components"]["schemas"]["Edit"]["properties"]["wait_s"]
    edit["maximum"] = edit["default"] = WAITED_S
    return document


def _endless(document: dict[str, Any]) -> list[str]:
    """What never ends by itself: other tests hold the streams to their promises."""
    return [
        one["operationId"]
        for methods in document["paths"].values()
        for one in methods.values()
        if any(STREAMS in said.get("content", {}) for said in one["responses"].values())
    ]


def _ask(
    server: Server, directory: Path, sessions: Sequence[str], examples: int, left_out: Sequence[str]
) -> None:
    document = _document(server, sessions)
    file = directory / "openapi.json"
    file.write_text(json.dumps(document))
    left = [word for name in (*_endless(document), *left_out) for word in ("--exclude-operation-id", name)]
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", str(file), "--url", server.url),
        *("--header", f"Authorization: Bearer {server.token}"),
        *("--phases", "coverage,fuzzing", "--max-examples", str(examples), "--request-timeout", "20"),
        # What fits its type may still fit nothing that is there: such answers are documented too.
        *("--exclude-checks", "positive_data_acceptance", "--warnings", "off", "--no-color"),
        *("--continue-on-failure", "--generation-database", "none", *left),
    ]
    done = subprocess.run(command, capture_output=True, check=False, cwd=directory, timeout=550)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-8000:]


def test_sessions_that_are_there_are_answered_as_the_document_says(server: Server, tmp_path: Path) -> None:
    _ask(server, tmp_path, ["done", "asked", "waits"], 3, ["erase_session"])


def test_whatever_is_asked_of_whatever_session_is_answered_as_the_document_says(
    server: Server, tmp_path: Path
) -> None:
    _ask(server, tmp_path, [], 3, [])


@pytest.mark.full
def test_much_more_is_answered_as_the_document_says(server: Server, tmp_path: Path) -> None:
    _ask(server, tmp_path, ["done", "asked", "waits"], 100, ["erase_session"])

"""Whom the commands tell that a session is ready."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from outlast.cli.main import main


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Any]]:
    """What a waker was told, of the tenant acme."""
    told: list[Any] = []

    class Waker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

    server = HTTPServer(("127.0.0.1", 0), Waker)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("OUTLAST_WAKER_URL", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setenv("OUTLAST_TENANT", "acme")
    monkeypatch.setenv("OUTLAST_WORLD", f"sqlite:{tmp_path / 'world.db'}")
    yield told
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "words", [["wake", "s-1"], ["run", "scripted", "go", "--session", "s-1", "--detach"]]
)
def test_a_hint_names_the_session_and_its_tenant(hints: list[Any], words: list[str]) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert hints == [{"session": "s-1", "tenant": "acme"}]

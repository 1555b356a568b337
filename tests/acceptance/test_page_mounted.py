"""The page in a real browser, of a server that is mounted below a path of another application."""

import socket
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from playwright.sync_api import expect
from starlette.applications import Starlette
from starlette.routing import Mount

from outlast.asgi import app
from outlast.clock import SystemClock
from outlast.server.tokens import Tokens
from outlast.worlds.memory import open_memory
from tests.acceptance.browser import opened_browser


@contextmanager
def served(whole: Starlette) -> Generator[str]:
    """The application at an address, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(whole, log_level="error"))
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        serving.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            serving.join()


def test_one_logs_in_and_follows_a_session_below_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path / "data"))
    tokens = Tokens(tmp_path / "tokens.json")
    token = tokens.add("ann", SystemClock())
    server = app(tokens, world=open_memory)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with server.open():
            yield

    whole = Starlette(routes=[Mount("/agents", server)], lifespan=lifespan)
    with served(whole) as url, opened_browser() as browser:
        headers = {"authorization": f"Bearer {token}"}
        made = httpx.post(f"{url}/agents/v1/sessions", json={"session": "s-1", "agent": "a"}, headers=headers)
        assert made.status_code == 200, made.text
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{url}/agents/#token={token}")
        page.get_by_role("link", name="s-1").click()
        expect(page).to_have_url(f"{url}/agents/#/sessions/s-1")
        expect(page.get_by_role("heading", name="s-1")).to_be_visible()
        page.goto(f"{url}/agents/decide/none.none")
        expect(page.get_by_text("This link is none of this server's")).to_be_visible()
        assert {one for one in asked if not one.startswith(f"{url}/agents/")} == set()

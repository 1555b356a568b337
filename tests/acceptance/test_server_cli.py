"""`outlast serve` and `outlast token` as people meet them."""

import json
import subprocess
from collections.abc import Generator

import httpx
import pytest

from tests.acceptance.counter import Counter, opened, script
from tests.acceptance.served import opened_server

pytestmark = pytest.mark.crash
SHOP = "tests.acceptance.stall:shop"


@pytest.fixture
def counter() -> Generator[Counter]:
    with opened() as one:
        yield one


def _asks(url: str, token: str) -> int:
    return httpx.get(f"{url}/v1/whoami", headers={"authorization": f"Bearer {token}"}).status_code


def test_the_first_start_makes_a_token_and_later_ones_keep_silent(counter: Counter) -> None:
    said: list[dict[str, str]] = []
    for _ in range(2):
        with counter.started("serve", "--port", "0", "--json") as server:
            assert server.stdout is not None
            said.append(json.loads(server.stdout.readline()))
            assert _asks(said[-1]["url"], said[0]["token"]) == 200
    assert said[0]["link"] == f"{said[0]['url']}/#token={said[0]['token']}"
    assert said[1]["link"] == said[1]["url"]
    assert said[1]["token"] == ""
    assert said[0]["url"].startswith("http://127.0.0.1:")


def test_a_token_holds_from_when_it_is_made_until_it_is_removed() -> None:
    with opened_server() as server:
        counter = server.counter
        (made,) = counter.json("token", "add", "dash", "--scopes", "read")
        assert _asks(server.url, made["token"]) == 200
        answer = httpx.post(
            f"{server.url}/v1/sessions",
            json={"session": "s", "agent": "a"},
            headers={"authorization": f"Bearer {made['token']}"},
        )
        assert (answer.status_code, "'write'" in answer.text) == (403, True)
        assert [row["name"] for row in counter.json("token", "ls")] == ["first", "dash"]
        assert made["token"] not in counter.outlast("token", "ls").stdout
        counter.outlast("token", "rm", "dash")
        assert _asks(server.url, made["token"]) == 401
        counter.outlast("token", "rm", "dash", status=3)
        assert (
            "The scopes are read" in counter.outlast("token", "add", "x", "--scopes", "all", status=2).stderr
        )


def test_a_link_of_the_command_line_decides_at_the_server() -> None:
    with opened_server(SHOP, environ={"OUTLAST_PUBLIC_URL": "https://agents.example"}) as server:
        counter = server.counter
        server.post("/v1/sessions", {"session": "s", "agent": "shop"})
        publish = {"do": "tool", "name": "publish", "arguments": {"command": "now"}}
        server.post("/v1/sessions/s/turns", {"text": script(publish)})
        counter.outlast("work", "--once", SHOP)
        (link,) = counter.json("decide", "s", "1", "--link", "--by", "ann")
        assert link["url"] == f"https://agents.example/decide/{link['link']}"
        counter.outlast("decide", "s", "1", "--link", "--allow", status=2)
        path = f"{server.url}/v1/decide/{link['link']}"
        assert httpx.get(path).json()["awaited"]["known"]["name"] == "publish"
        assert httpx.post(path, json={"call": 1, "ruling": "allow"}).status_code == 202
        counter.outlast("work", "--once", SHOP)
        assert '"by":"link of ann"' in counter.outlast("log", "s", "--json").stdout
        counter.outlast("decide", "s", "1", "--link", status=5)


def test_what_other_machines_reach_is_said(counter: Counter) -> None:
    with counter.started("serve", "--port", "0", "--host", "0.0.0.0", "--json") as server:
        assert server.stdout is not None
        assert server.stderr is not None
        server.stdout.readline()
        assert "0.0.0.0 is reached from other machines" in server.stderr.readline()


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do(counter: Counter) -> None:
    with counter.started("serve", "--port", "0", "--json") as server:
        assert server.stdout is not None
        port = httpx.URL(json.loads(server.stdout.readline())["url"]).port
        refused: subprocess.CompletedProcess[str] = counter.outlast("serve", "--port", str(port), status=2)
        assert "Choose another with --port" in refused.stderr

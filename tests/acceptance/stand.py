"""Where the page is used: a server, workers that can be killed, and a browser that is logged in."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

from tests.acceptance.browser import LIMIT_MS
from tests.acceptance.counter import Counter, opened
from tests.acceptance.stall import BELL
from tests.acceptance.terminals import LIMIT_S

AGENTS: Final = (
    "tests.acceptance.stall:shop",
    "tests.acceptance.stall:builder",
    "tests.acceptance.stall:door",
    "tests.acceptance.office:stray",
)


@dataclass
class Stand:
    """A server over a World of its own."""

    counter: Counter
    url: str
    link: str
    token: str
    api: httpx.Client
    processes: ExitStack
    server: "subprocess.Popen[str]"

    def work(self) -> None:
        """Start a worker."""
        self.processes.enter_context(self.counter.started("work", *AGENTS))

    def restart(self) -> None:
        """Start a server again where the one stood that was killed."""
        port = self.url.rpartition(":")[2]
        self.server = self.processes.enter_context(self.counter.started(*serving(port)))
        assert self.server.stdout is not None
        assert self.server.stdout.readline()

    def kill(self, pid: int) -> None:
        """End a worker as a machine that dies would."""
        os.kill(pid, signal.SIGKILL)

    def open(self, session: str, *prompts: object, agent: str = "shop", **settings: Any) -> None:
        """Open a session and send it prompts; what is no text is a script."""
        self.post("/v1/sessions", {"session": session, "agent": agent, **settings})
        for prompt in prompts:
            self.send(session, prompt)

    def send(self, session: str, prompt: object) -> None:
        text = prompt if isinstance(prompt, str) else json.dumps(prompt)
        self.post(f"/v1/sessions/{session}/turns", {"text": text})

    def post(self, path: str, body: object) -> Any:
        answer = self.api.post(path, json=body)
        assert answer.status_code < 300, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def post_edit(self, session: str, name: str, value: object) -> None:
        """Set a document, as another program does."""
        path = f"/v1/sessions/{session}/documents/{name}"
        answer = self.api.patch(path, json={"edits": [{"op": "set", "value": value}]})
        assert answer.status_code == 200, answer.text

    def get(self, path: str) -> Any:
        answer = self.api.get(path)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def put(self, path: str, body: object) -> None:
        answer = self.api.put(path, json=body)
        assert answer.status_code == 200, answer.text

    def link_to(self, session: str) -> str:
        """A signed link to decide about the call that a session waits for."""
        [awaited] = self.get(f"/v1/sessions/{session}/awaited")["awaits"]
        made = self.post(f"/v1/sessions/{session}/approval-links", {"call": awaited["call"]})
        return str(made["link"])

    def until_settled(self, session: str, turn: int = 1) -> str:
        """Wait for the end of a turn, and return how it ended."""
        return self._until(session, turn, "turn.settled")

    def until_parked(self, session: str, turn: int = 1) -> str:
        """Wait until a turn waits for a person, and return for what."""
        return self._until(session, turn, "turn.parked")

    def _until(self, session: str, turn: int, kind: str) -> str:
        path = f"/v1/sessions/{session}/turns/{turn}/events"
        with self.api.stream("GET", path, headers={"accept": "text/event-stream"}) as stream:
            assert stream.status_code == 200, stream.read()
            for line in stream.iter_lines():
                said = line.removeprefix("data:").strip() if line.startswith("data:") else "null"
                event: dict[str, Any] | None = json.loads(said)
                if event is not None and event.get("kind") == kind:
                    return str(event["status"])
        raise AssertionError(f"the stream of turn {turn} of {session} ended before {kind}")


def serving(port: str = "0") -> list[str]:
    """The words of the command."""
    return ["serve", *AGENTS, "--port", port, "--json"]


@contextmanager
def opened_stand(*, past: Callable[[str], object] | None = None) -> Generator[Stand]:
    """A server that runs, and a worker; over a World that has a `past`, which is told its URL first, no worker."""
    with opened() as counter, ExitStack() as processes:
        if past is not None:
            past(counter.environ["OUTLAST_WORLD"])
        counter.environ[BELL] = counter.bell.path
        server = processes.enter_context(counter.started(*serving()))
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        api = processes.enter_context(
            httpx.Client(
                base_url=said["url"], headers={"authorization": f"Bearer {said['token']}"}, timeout=LIMIT_S
            )
        )
        stand = Stand(counter, said["url"], said["link"], said["token"], api, processes, server)
        if past is None:
            stand.work()
        yield stand


@contextmanager
def visited(
    browser: Browser,
    stand: Stand,
    path: str = "",
    *,
    scheme: str = "light",
    width: int = 1280,
    height: int = 860,
) -> Generator[Page]:
    """A page that is logged in, in a browser without a past. Whatever its console says as an error fails."""
    context = _context(browser, scheme, width, height)
    page = context.new_page()
    page.set_default_timeout(LIMIT_MS)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if _is_wrong(said) else None)
    page.goto(stand.link)
    page.get_by_role("heading", name="Sessions").wait_for()
    if path:
        page.goto(f"{stand.url}/{path}")
    yield page
    context.close()
    assert not wrong, wrong


def _is_wrong(said: ConsoleMessage) -> bool:
    """Also what the policy refused; not that the server refused something, which the page itself tells."""
    return said.type == "error" and not said.text.startswith("Failed to load resource")


def _context(browser: Browser, scheme: str, width: int, height: int) -> BrowserContext:
    dark = scheme == "dark"
    return browser.new_context(
        color_scheme="dark" if dark else "light",
        viewport={"width": width, "height": height},
        device_scale_factor=1,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )

"""As much of GitHub's API, over a Unix socket, as the real `gh` asks for to open and to list pull requests.

Seen of gh 2.103.3: what it asks, and which fields it reads.
"""

import json
import re
import socketserver
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from time import gmtime, strftime
from typing import Any, Final

from tests.egress.forge import HELD_S, Cut

HOST: Final = "github.test"
URL: Final = f"https://{HOST}/team/site"
_REPOSITORY: Final = {
    "id": "R1",
    "name": "site",
    "owner": {"id": "U1", "login": "team"},
    "hasIssuesEnabled": True,
    "viewerPermission": "WRITE",
    "defaultBranchRef": {"name": "main"},
    "parent": None,
}
_TYPES: Final = re.compile(r"(\w+): *__type\([^)]*\) *\{ *(\w+)")


@dataclass
class GitHub:
    """One repository's pull requests."""

    socket: Path
    opened: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    """What each was asked for with."""
    cuts: Cut = ""
    """Where the next that is to be opened is held up, and never gets an answer."""
    held: threading.Event = field(default_factory=threading.Event)

    def answer(self, query: str, variables: Mapping[str, Any]) -> object:
        """What is said to a question in GraphQL."""
        if types := _TYPES.findall(query):
            nothing: Mapping[str, Mapping[str, Sequence[str]]] = {
                name: {wanted: ()} for name, wanted in types
            }
            return nothing
        if "createPullRequest" in query:
            return {"createPullRequest": {"pullRequest": {"id": "P", "url": self.open(variables["input"])}}}
        if "pullRequests(" in query:
            head = variables.get("headBranch") or variables.get("headRefName")
            listed = [one for one in self._listed() if one["headRefName"] == head]
            pages = {"hasNextPage": False, "endCursor": ""}
            found = {"totalCount": len(listed), "nodes": listed, "pageInfo": pages}
            return {"repository": {"pullRequests": found, "defaultBranchRef": {"name": "main"}}}
        return {"repository": _REPOSITORY}

    def open(self, asked: Mapping[str, Any]) -> str:
        """Open a pull request."""
        self.opened.append({**asked, "createdAt": strftime("%Y-%m-%dT%H:%M:%SZ", gmtime())})
        return f"{URL}/pull/{len(self.opened)}"

    def _listed(self) -> Sequence[Mapping[str, Any]]:
        return [
            {**one, "number": number, "url": f"{URL}/pull/{number}", "state": "OPEN"}
            for number, one in enumerate(self.opened, 1)
        ]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, hub: GitHub, *args: object) -> None:
        self._hub = hub
        super().__init__(*args)  # pyright: ignore[reportArgumentType] - a request, an address, the server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name for it
        pass

    def do_GET(self) -> None:
        self._say({})

    def do_POST(self) -> None:
        asked: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        hub, query = self._hub, str(asked["query"])
        variables: Mapping[str, Any] = asked.get("variables") or {}
        if "createPullRequest" in query and hub.cuts:
            cuts, hub.cuts = hub.cuts, ""
            if cuts == "after it landed":
                hub.answer(query, variables)
            hub.held.set()
            self.connection.settimeout(HELD_S)
            with suppress(OSError):
                self.connection.recv(1)  # until whoever asks is gone
            self.close_connection = True
            return
        self._say({"data": hub.answer(query, variables)})

    def _say(self, said: object) -> None:
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever goes away in the middle is not the server's trouble."""


@contextmanager
def open_github(socket: Path, home: Path) -> Generator[GitHub]:
    """Serve it; the `gh` of whoever has this HOME knows where."""
    config = home / ".config/gh"
    config.mkdir(parents=True)
    (config / "config.yml").write_text(f'version: "1"\nhttp_unix_socket: {socket}\nprompt: disabled\n')
    (config / "hosts.yml").write_text(f"{HOST}:\n    oauth_token: gho_none\n    user: me\n")
    hub = GitHub(socket)
    with _Server(str(socket), partial(_Handler, hub)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
